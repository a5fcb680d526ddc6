// Trains a GPT-2-style model as train_gpt does; a call is one step.

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

#include "commands.h"
#include "parallel/engine/engine.h"
#include "parallel/kernels/host/blas.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/nn/gpt.h"
#include "parallel/tensor/random.h"

namespace {

using namespace tutti::parallel;

struct Training {
  Engine& engine;
  Loader& loader;
  Optimizer& optimizer;
  int64_t step = 0;
};

double timeOfStep(void* context, const worker_command*, uint32_t) {
  auto& t = *static_cast<Training*>(context);
  const double begin = now_ns();
  const StepReport report = t.engine.step(t.loader, t.step++, t.optimizer, 1e-4);
  const double end = now_ns();
  return std::isfinite(report.loss) && std::isfinite(report.gradientNorm) ? end - begin : NAN;
}

}  // namespace

int main(int argc, char** argv) {
  GptOptions model;
  int64_t batch = 16;
  int microBatches = 0, ranks = 1;
  std::string directory;
  CLI::App app{"a worker of training_speed"};
  app.add_option("--vocabulary", model.vocabulary);
  app.add_option("--context", model.context);
  app.add_option("--layers", model.layers);
  app.add_option("--width", model.width);
  app.add_option("--heads", model.heads);
  app.add_option("--batch", batch, "sequences of a step, over all ranks");
  app.add_option("--micro-batches", microBatches, "of a step; 0: chosen");
  app.add_option("--ranks", ranks);
  app.add_option("directory", directory)->required();
  CLI11_PARSE(app, argc, argv);
  try {
    const Random random(1, "text");
    std::vector<uint8_t> text(size_t{1} << 20);
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<uint8_t>(random.below(i, 256));
    host::setBlasThreads(1);
    DeviceMesh mesh = ranks > 1 ? DeviceMesh(tutti::Communicator::create()) : DeviceMesh();
    HostKernels kernels;
    Gpt gpt(model);
    Engine engine(mesh, kernels, gpt,
                  {.policy = ShardPolicy::ddp(), .reductionGroups = microBatches});
    Loader loader(text, model.context, batch, 1);
    const auto optimizer = makeAdamW({});
    Training training{engine, loader, *optimizer};
    return obey_commands(directory.c_str(), mesh.rank(), timeOfStep, &training);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tutti_trainer: %s\n", e.what());
    return 1;
  }
}
