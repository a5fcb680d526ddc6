// Trains a GPT-2-style model as train_gpt does; a call is one step. With --profile it takes no
// commands, and prints where the time of its steps goes.

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "bench/training/profile.h"
#include "commands.h"
#include "parallel/engine/engine.h"
#include "parallel/kernels/host/blas.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/nn/gpt.h"
#include "parallel/tensor/random.h"

namespace {

using namespace tutti::parallel;
using tutti::bench::TimedKernels;

struct Training {
  Engine& engine;
  Loader& loader;
  Optimizer& optimizer;
  int64_t step = 0;
};

/// False when it went wrong.
bool step(Training& t) {
  const StepReport report = t.engine.step(t.loader, t.step++, t.optimizer, 1e-4);
  return std::isfinite(report.loss) && std::isfinite(report.gradientNorm);
}

double timeOfStep(void* context, const worker_command*, uint32_t) {
  const double begin = now_ns();
  const bool sound = step(*static_cast<Training*>(context));
  return sound ? now_ns() - begin : NAN;
}

int profile(TimedKernels& kernels, Training& training, int steps) {
  keep_to_core(0);
  const auto table = tutti::bench::profiled(kernels, steps, [&] {
                       if (!step(training)) throw std::runtime_error("a loss is not finite");
                     }).table();
  return std::fputs(table.c_str(), stdout) < 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  GptOptions model;
  int64_t batch = 16;
  int microBatches = 0, ranks = 1, profiledSteps = 0;
  bool brain = false, whole = false;
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
  app.add_flag("--bf16", brain, "weights and activations are bfloat16, masters float32");
  app.add_flag("--no-amx", whole, "products leave AMX out");
  app.add_option("--profile", profiledSteps, "steps whose kernels are timed");
  app.add_option("directory", directory);
  CLI11_PARSE(app, argc, argv);
  try {
    const Random random(1, "text");
    std::vector<uint8_t> text(size_t{1} << 20);
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<uint8_t>(random.below(i, 256));
    host::setBlasThreads(1);
    host::setSplitProducts(!whole);
    DeviceMesh mesh = ranks > 1 ? DeviceMesh(tutti::Communicator::create()) : DeviceMesh();
    HostKernels plain;
    TimedKernels timed;
    Kernels& kernels = profiledSteps > 0 ? static_cast<Kernels&>(timed) : plain;
    Gpt gpt(model);
    Engine engine(mesh, kernels, gpt,
                  {.policy = ShardPolicy::ddp(),
                   .types = brain ? DType::BFloat16 : DType::Float32,
                   .reductionGroups = microBatches});
    Loader loader(text, model.context, batch, 1);
    const auto optimizer = makeAdamW({});
    Training training{engine, loader, *optimizer};
    if (profiledSteps > 0) return profile(timed, training, profiledSteps);
    return obey_commands(directory.c_str(), mesh.rank(), timeOfStep, &training);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tutti_trainer: %s\n", e.what());
    return 1;
  }
}
