// Trains a small transformer on all ranks. Weights, gradients and the optimizer's state are shared
// out over them (FSDP). The loss is the same for any number of ranks.

#include <tutti/parallel/engine/engine.h>
#include <tutti/parallel/kernels/host/host_kernels.h>
#include <tutti/parallel/nn/gpt.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

using namespace tutti::parallel;

int main() {
  try {
    DeviceMesh mesh(tutti::Communicator::create());  // all ranks along the data axis
    const int rank = mesh.rank();

    std::vector<uint8_t> text(4096);  // a token is a byte
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<uint8_t>('a' + i % 11);

    HostKernels kernels;
    Gpt model({.context = 32, .layers = 2, .width = 32, .heads = 4});
    Engine engine(mesh, kernels, model, {.policy = ShardPolicy::fsdp()});
    Loader loader(text, 32, 8, 1);  // windows of 32 tokens, 8 in a batch, seed 1
    const auto optimizer = makeAdamW({});

    for (int64_t step = 0; step <= 40; ++step) {
      const StepReport report = engine.step(loader, step, *optimizer, 0.01);
      if (rank == 0 && step % 10 == 0)
        std::printf("step %2d: loss %.3f\n", static_cast<int>(step), report.loss);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
