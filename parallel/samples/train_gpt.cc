// train_gpt: trains a small byte-level GPT on any text file, data-parallel over ranks, and lets it
// write. `train_gpt --text book.txt --ranks 4` starts four processes on this machine; under
// `tutti run` (or another launcher) it joins the job that it finds itself in.

#include <cstdio>
#include <exception>

#include <tutti/communicator.h>
#include "parallel/engine/generate.h"
#include "parallel/kernels/host/blas.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/nn/gpt.h"
#include "parallel/samples/progress.h"
#include "parallel/samples/ranks.h"
#include "parallel/samples/train_options.h"

namespace {

using namespace tutti;
using namespace tutti::parallel;

DeviceMesh joinMesh(const TrainOptions& options) {
  if (launchedRanks() <= 1) return DeviceMesh();
  return DeviceMesh(Communicator::create({.deterministic = options.deterministic}));
}

void train(const TrainOptions& options) {
  const TokenData text = readBytes(options.text, options.model.context);
  DeviceMesh mesh = joinMesh(options);
  host::setBlasThreads(1);  // ranks are the parallelism; one thread each keeps the bits
  HostKernels kernels;
  Gpt model(options.model);
  Engine engine(mesh, kernels, model,
                {.policy = {.deterministic = options.deterministic},
                 .reductionGroups = options.microBatches,
                 .clipNorm = options.clip,
                 .seed = options.seed});
  Loader loader(text.train, options.model.context, options.batch, options.seed);
  Windows windows(text.validation, options.model.context);

  const auto optimizer = options.optimizer == "sgd"
                             ? makeSgd({.weightDecay = options.weightDecay})
                             : makeAdamW({.weightDecay = options.weightDecay});
  const CosineSchedule schedule{options.learningRate, options.warmup, options.steps};

  Progress progress(options, mesh.rank() == 0);
  progress.begin(engine.store().elementCount(), text.train.size(), mesh.ranks());
  for (int64_t step = 0; step < options.steps; ++step) {
    const StepReport report = engine.step(loader, step, *optimizer, schedule.at(step + 1));
    progress.step(step + 1, report);
    if (options.checkReplicas) engine.store().checkReplicas();
  }
  progress.validation(engine.evaluate(windows, options.batch));

  if (mesh.rank() == 0 && options.generate > 0)
    progress.text(options.prompt, generate(engine, {.prompt = options.prompt,
                                                    .bytes = options.generate,
                                                    .context = options.model.context,
                                                    .seed = options.seed}));
}

}  // namespace

int main(int argc, char** argv) {
  TrainOptions options;
  if (const auto exitCode = parse(argc, argv, options)) return *exitCode;
  try {
    if (mustLaunch(options.ranks)) return launchRanks(argc, argv, options.ranks);
    train(options);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "train_gpt: %s\n", e.what());
    return 1;
  }
}
