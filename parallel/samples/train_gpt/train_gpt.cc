// train_gpt: trains a small GPT on any text file, as bytes or as a tokenizer has it, over ranks,
// data-parallel, ZeRO, FSDP, tensor- or context-parallel or a pipeline, and lets it write.
// `train_gpt --text book.txt --ranks 4` starts four processes on this machine; under `tutti run`
// (or another launcher) it joins the job that it finds itself in.

#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>

#include "parallel/engine/agreement.h"
#include "parallel/engine/generate.h"
#include "parallel/engine/trace_file.h"
#include "parallel/huggingface/folder.h"
#include "parallel/kernels/host/blas.h"
#include "parallel/samples/device.h"
#include "parallel/samples/loaded_model.h"
#include "parallel/samples/options/flags.h"
#include "parallel/samples/ranks.h"
#include "parallel/samples/reports/progress.h"
#include "parallel/samples/train_gpt/end_request.h"
#include "parallel/samples/train_gpt/train_folders.h"
#include "parallel/samples/train_gpt/train_memory.h"
#include "parallel/samples/train_gpt/train_options.h"
#include "parallel/samples/train_gpt/train_text.h"
#include "parallel/tokenizer/tokenizer_file.h"

namespace {

using namespace tutti;
using namespace tutti::parallel;

/// Ends a training whose numbers are no longer finite; returns its exit code. All ranks see the
/// same numbers and come here together. The first that leaves ends the others, so none does before
/// rank 0 has said why.
int diverged(DeviceMesh& mesh, TrainingProgress& progress, const std::string& what) {
  progress.notFinite(what);
  if (MeshCommunicator* all = mesh.communicator(AxisSet::all())) all->barrier();
  return 1;
}

/// What decides which samples come next, and what becomes of them: to go on with another text or
/// model is no resuming.
Metadata sameInAllRuns(const TrainOptions& options, const TokenView& text) {
  const std::string lines =
      !options.lines ? "no" : "yes, prompts end at '" + options.promptEnd + "'";
  return {{"--seed", std::to_string(options.seed)},
          {"--batch", options.batch},
          {"--lines", lines},
          {"text", fingerprint(text)},
          {kConfigFact, configText(modelOf(options), DType::Float32)}};
}

Loader makeLoader(const TrainOptions& options, const TokenView& text) {
  if (auto documents = documentsOf(options, text))
    return Loader(text, *std::move(documents), options.batch, options.seed);
  return Loader(text, options.model.context, options.batch, options.seed);
}

/// Only float16 needs it.
std::optional<LossScaling> lossScalingOf(const TrainOptions& options) {
  if (options.type != DType::Float16) return std::nullopt;
  return options.lossScaling;
}

StoreTypes typesOf(const TrainOptions& options) {
  StoreTypes types = options.type;
  types.gradients = options.gradients;
  return types;
}

std::unique_ptr<Optimizer> optimizerOf(const TrainOptions& options) {
  const double decay = options.weightDecay;
  if (options.optimizer == "adamw") return makeAdamW({.weightDecay = decay});
  return makeSgd({.weightDecay = decay, .momentum = options.optimizer == "momentum" ? 0.9 : 0});
}

/// And what generate needs to know of the tokens.
Metadata facts(Metadata all, const Tokenizer& tokenizer) {
  all[kTokenizerFact] = tokenizer.fingerprint();
  return all;
}

/// 0, or where the newest checkpoint that is sound ends.
int64_t firstStep(Engine& engine, const TrainOptions& options, const Optimizer& optimizer,
                  const Metadata& same) {
  if (!options.resume) return 0;
  const auto warn = [](const std::string& what) {
    std::fprintf(stderr, "train_gpt: warning: %s\n", what.c_str());
  };
  return engine.loadNewest(options.checkpoints, optimizer, same, warn).value_or(0);
}

/// Returns the exit code.
int train(const TrainOptions& options, int ranks) {
  const EndRequest request;
  const auto tokenizer = tokenizerOf(options);
  const TokenData text = readTokens(options, *tokenizer);
  DeviceMesh mesh = joinMesh(meshOf(options, ranks), options.device, options.deterministic);
  together(mesh.communicator(AxisSet::all()), [&] {
    if (mesh.rank() == 0) checkFolders(options);
  });
  host::setBlasThreads(1);  // ranks are the parallelism; one thread each keeps the bits
  const auto kernels = kernelsFor(mesh);
  const auto model = makeModel(modelOf(options));
  Engine engine(mesh, *kernels, *model,
                {.policy = policyOf(options),
                 .types = typesOf(options),
                 .reductionGroups = options.microBatches,
                 .rounds = options.rounds,
                 .clipNorm = options.clip,
                 .seed = options.seed,
                 .lossScaling = lossScalingOf(options),
                 .pipeline = pipelineOf(options)});
  Loader loader = makeLoader(options, text.train);
  Windows windows = validationWindows(options, text.validation);

  const auto optimizer = optimizerOf(options);
  const CosineSchedule schedule{options.learningRate, options.warmup, options.steps};

  if (!options.initFrom.empty()) loadWeights(mesh, engine.store(), options.initFrom);
  TrainingProgress progress(options, mesh.rank() == 0);
  progress.begin(engine.store().elementCount(), text.train.size(), mesh.ranks());
  progress.shortText(loader.windows());
  const Metadata same = sameInAllRuns(options, text.train);
  const int64_t first = firstStep(engine, options, *optimizer, same);
  std::optional<TraceFile> trace;
  if (!options.trace.empty()) trace.emplace(mesh, options.trace);
  progress.resumed(first);
  int signal = 0;  // that asks to end, of any rank
  const auto asked = [&] {
    MeshCommunicator* const all = mesh.communicator(AxisSet::all());
    return (signal = static_cast<int>(largestOf(all, request.signal()))) != 0;
  };
  for (int64_t step = first; step < options.steps; ++step) {
    const double rate = schedule.at(step + 1);
    const StepReport report = engine.step(loader, step, *optimizer, rate);
    progress.step(step + 1, report, rate, engine.memory());
    const bool finite = std::isfinite(report.loss) && std::isfinite(report.gradientNorm);
    if (report.skipped ? report.lost : !finite) {
      if (trace) trace->write();
      return diverged(mesh, progress,
                      message("step ", step + 1, ": the loss is ", report.loss,
                              ", the gradient norm ", report.gradientNorm));
    }
    if (options.checkReplicas) engine.store().checkReplicas();
    const bool last = step + 1 == options.steps;
    const bool ends = asked() || last;
    if (!options.checkpoints.empty() &&
        (ends || (options.saveEvery > 0 && (step + 1) % options.saveEvery == 0))) {
      const auto save =
          options.asyncCheckpoints && !ends ? &Engine::saveInBackground : &Engine::save;
      (engine.*save)(options.checkpoints, step + 1, *optimizer, options.keep,
                     facts(same, *tokenizer));
    }
    if (signal != 0 && !last) {
      if (trace) trace->write();
      progress.stopped(step + 1, signal, options.checkpoints);
      return 0;
    }
  }
  engine.awaitSave();
  if (trace) trace->write();
  // A run that resumes comes here at once.
  const auto validation = engine.evaluate(windows, options.batch, [&](int64_t done) {
    progress.validating(done, windows.count());
    return asked();
  });
  if (!validation || asked()) {
    progress.stopped(options.steps, signal, options.checkpoints);
    return 0;
  }
  progress.validating(windows.count(), windows.count());
  if (!std::isfinite(*validation))
    return diverged(mesh, progress,
                    message("after the last step the validation loss is ", *validation));

  if (!options.exportTo.empty())
    exportFolder(mesh, engine.store(), options.exportTo,
                 {.options = modelOf(options), .tokenizer = tokenizerText(options.tokenizer)});

  // Where weights are shared out or cut, all ranks have to give theirs.
  const bool together = engine.store().policy().optimizer || modelRanks(options) > 1;
  if (options.generate > 0 && (mesh.rank() == 0 || together)) {
    const auto written =
        generate(engine, {.prompt = promptTokens(*tokenizer, options.prompt),
                          .tokens = options.generate,
                          .vocabulary = tokenizer->vocabulary(),
                          .context = options.model.context,
                          .seed = options.seed,
                          .stop = [&] { return together ? asked() : request.signal() != 0; }});
    progress.text(options.prompt, tokenizer->decode(written));
  }
  progress.validation(*validation);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // Room for all of --help, so that it is flushOutput() that meets a full disk, and says so.
  static std::array<char, 1 << 16> room;
  std::setvbuf(stdout, room.data(), _IOFBF, room.size());
  try {
    TrainOptions options;
    if (const auto exitCode = parse(argc, argv, options)) return *exitCode;
    fillModel(options);
    const RankPlan plan = planRanks(askedRanks(options), askingFlags(options));
    checkLayout(options, plan.ranks);
    checkSplit(options, plan.ranks);
    checkMemory(options, {.ranks = plan.ranks,
                          .ranksHere = plan.launch ? plan.ranks : 1,
                          .bytes = machineMemoryBytes()});
    checkNotTheText(options);
    deviceFor(options.device, 0);
    if (plan.launch) {
      checkFiles(options);  // here, where the message is printed once
      checkFolders(options);
      return launchRanks(argc, argv, plan.ranks);
    }
    return train(options, plan.ranks);
  } catch (const std::exception& e) {
    sayError("train_gpt", e.what());
    return 1;
  }
}
