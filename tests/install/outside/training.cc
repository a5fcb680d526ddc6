// A training program of somebody else.

#include <tutti/parallel/engine/engine.h>
#include <tutti/parallel/kernels/cuda/make_cuda_kernels.h>
#include <tutti/parallel/kernels/host/host_kernels.h>
#include <tutti/parallel/nn/gpt.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

using namespace tutti::parallel;

/// GPUs' kernels come along in any build, and take no stream of the host.
static bool refusesHostStreams() {
  try {
    makeCudaKernels({});
  } catch (const tutti::Error&) {
    return true;
  }
  return false;
}

int main() {
  try {
    std::vector<uint8_t> text(1000);
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<uint8_t>('a' + i % 7);
    DeviceMesh mesh;
    HostKernels kernels;
    Gpt model({.context = 16, .layers = 1, .width = 16, .heads = 2});
    Engine engine(mesh, kernels, model, {});
    Loader loader(text, 16, 4, 1);
    const auto optimizer = makeAdamW({});
    const double first = engine.step(loader, 0, *optimizer, 0.01).loss;
    double last = first;
    for (int64_t step = 1; step < 20; ++step)
      last = engine.step(loader, step, *optimizer, 0.01).loss;
    if (!refusesHostStreams()) std::puts("GPUs' kernels took a stream of the host");
    std::puts(last < first - 1 ? "the loss fell" : "the loss did not fall");
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
