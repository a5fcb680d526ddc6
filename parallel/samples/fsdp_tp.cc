// fsdp_tp: a small GPT over a mesh of fsdp x tp, within a limit on what each rank may hold. FSDP
// shares out what lasts from step to step, but each rank computes whole layers on whole sequences:
// their activations, and the weights that are gathered for them, it does not cut. Tensor
// parallelism does. So with the default limit 4 ranks need --tp 4, and the sample says so before it
// trains, since a run without data tells it what a rank would hold. `fsdp_tp --ranks 4 --tp 4`,
// `fsdp_tp --ranks 4 --compare`

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <list>

#include "parallel/dry/dry_run.h"
#include "parallel/engine/describe.h"
#include "parallel/samples/flags.h"
#include "parallel/samples/sample.h"
#include "parallel/tensor/random.h"

namespace {

using namespace tutti;
using namespace tutti::parallel;

struct FsdpTpOptions {
  int tp = 1;
  uint64_t memoryLimit = uint64_t{16} << 20;
  std::string dataset = "text";
  bool compare = false;
};

void addFlags(CLI::App& app, SampleOptions& options, FsdpTpOptions& o) {
  options.model = {.context = 256, .layers = 6, .width = 128, .heads = 4};
  options.batch = 4;
  options.steps = 10;
  addTrainingFlags(app, options);
  app.add_option("--tp", o.tp, "ranks that share out each layer; those of fsdp are the others")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_flag("--sp", options.model.sequenceParallel,
               "these ranks share out what lies between the layers' maps too");
  app.add_option("--memory-limit", o.memoryLimit, "bytes that a rank may hold; 0: any number")
      ->transform(byteSize())
      ->default_str("16M");
  app.add_option("--dataset", o.dataset, "text, or random tokens")
      ->check(CLI::IsMember({"text", "random"}))
      ->capture_default_str();
  app.add_flag("--compare", o.compare,
               "times --tp 1, 2, 4, ... in turn, each step of one after that of another; no limit");
}

/// GPT has as many heads of keys and values as of queries, so no ranks share them.
MeshShape meshOf(int ranks, int tp) {
  require(ranks % tp == 0, "--tp ", tp, " does not divide ", ranks, " ranks");
  MeshShape shape;
  shape[Axis::Fsdp] = ranks / tp;
  shape[Axis::Tensor] = tp;
  return shape;
}

EngineOptions engineOptions(const SampleOptions& o) {
  ShardPolicy policy = ShardPolicy::fsdp();
  policy.deterministic = o.deterministic;
  return {.policy = policy, .seed = kSampleSeed};
}

/// What a rank would hold.
TrainingMemory plannedMemory(const MeshShape& mesh, int rank, const SampleOptions& o) {
  Gpt model(o.model);
  return dryRun({.mesh = mesh,
                 .rank = rank,
                 .engine = engineOptions(o),
                 .batch = o.batch,
                 .context = o.model.context},
                model, *makeAdamW({}))
      .memory;
}

/// Whether the batch has a micro-batch for each rank of fsdp, and heads can be dealt out.
bool isPossible(const MeshShape& mesh, const SampleOptions& o) {
  try {
    plannedMemory(mesh, 0, o);
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::InvalidArgument) throw;
    return false;
  }
}

/// All --tp with which so many ranks can train the model on the batch.
std::vector<int> possibleTp(int ranks, const SampleOptions& o) {
  std::vector<int> possible;
  for (int tp = 1; tp <= ranks; ++tp)
    if (ranks % tp == 0 && isPossible(meshOf(ranks, tp), o)) possible.push_back(tp);
  require(!possible.empty(), ranks, " ranks can train this model on this batch with no --tp");
  return possible;
}

/// Rank 0 has the larger part of whatever is cut unevenly.
void requireFit(const MeshShape& mesh, const SampleOptions& o, uint64_t limit) {
  const TrainingMemory memory = plannedMemory(mesh, 0, o);
  if (limit == 0 || memory.total() <= limit) return;
  const std::vector<int> possible = possibleTp(mesh.ranks(), o);
  const auto fits = std::ranges::find_if(possible, [&](int tp) {
    return plannedMemory(meshOf(mesh.ranks(), tp), 0, o).total() <= limit;
  });
  fail(ErrorCode::OutOfMemory, "rank 0 of ", mesh.describe(), " ", describe(memory),
       "which is more than --memory-limit, ", bytesText(limit), ": ",
       fits == possible.end() ? message("with no --tp up to ", possible.back(), " it fits")
                              : message("the least that fits is --tp ", *fits));
}

std::vector<uint8_t> tokensOf(const std::string& dataset) {
  if (dataset == "text") return sampleText();
  std::vector<uint8_t> tokens(size_t{1} << 16);
  const Random random(kSampleSeed, "dataset");
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint8_t>(random.below(i, 256));
  return tokens;
}

/// A training under one layout, step by step.
class Training {
 public:
  Training(DeviceMesh& mesh, Kernels& kernels, const SampleOptions& o,
           const std::vector<uint8_t>& tokens)
      : model_(o.model),
        engine_(mesh, kernels, model_, engineOptions(o)),
        loader_(tokens, o.model.context, o.batch, kSampleSeed),
        optimizer_(makeAdamW({})) {}

  const StepReport& step(int64_t step) {
    const auto start = std::chrono::steady_clock::now();
    report_ = engine_.step(loader_, step, *optimizer_, 0.001);
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    milliseconds_.push_back(taken.count());
    return report_;
  }

  /// Without the first step, in which arenas grow. A step ends with sums over all ranks, so it
  /// takes as long on each of them.
  double medianMilliseconds() const {
    std::vector<double> times = milliseconds_;
    if (times.size() > 1) times.erase(times.begin());
    std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
    return times[times.size() / 2];
  }
  double loss() const { return report_.loss; }  ///< of the last step
  const Engine& engine() const { return engine_; }

 private:
  Gpt model_;
  Engine engine_;
  Loader loader_;
  std::unique_ptr<Optimizer> optimizer_;
  StepReport report_;
  std::vector<double> milliseconds_;
};

void train(SampleRank& rank, const FsdpTpOptions& options) {
  const SampleOptions& o = rank.options;
  requireFit(rank.mesh.shape(), o, options.memoryLimit);
  const TrainingMemory planned = plannedMemory(rank.mesh.shape(), rank.mesh.rank(), o);
  if (!rank.mesh.dry()) rank.say("planned: rank 0 " + describe(planned));
  const std::vector<uint8_t> tokens = tokensOf(options.dataset);
  Training training(rank.mesh, rank.kernels, o, tokens);
  for (int64_t step = 0; step < o.steps; ++step) rank.show(step, training.step(step));
  rank.showUse(training.engine());
  if (rank.mesh.dry()) return;
  const TrainingMemory held = training.engine().memory();
  ensure(held == planned, "rank ", rank.mesh.rank(), " ", describe(held),
         "and it was planned that it ", describe(planned));
  rank.say(message("as planned; a step takes ", training.medianMilliseconds(), " ms\n"));
}

void compare(SampleRank& rank, const FsdpTpOptions& options) {
  struct Compared {
    Compared(SampleRank& of, const MeshShape& shape, const std::vector<uint8_t>& tokens)
        : mesh(of.mesh.arranged(shape)), training(mesh, of.kernels, of.options, tokens) {}
    DeviceMesh mesh;
    Training training;
  };
  const SampleOptions& o = rank.options;
  const std::vector<uint8_t> tokens = tokensOf(options.dataset);
  std::list<Compared> layouts;
  for (const int tp : possibleTp(rank.mesh.ranks(), o))
    layouts.emplace_back(rank, meshOf(rank.mesh.ranks(), tp), tokens);
  for (int64_t step = 0; step < o.steps; ++step)
    for (Compared& layout : layouts) layout.training.step(step);
  const bool dry = rank.mesh.dry();
  rank.say(message("tp  rank 0 holds", dry ? "" : "  a step       loss at the end", "  fits\n"));
  for (const Compared& layout : layouts) {
    const size_t bytes = layout.training.engine().memory().total();
    const bool fits = options.memoryLimit == 0 || bytes <= options.memoryLimit;
    char held[32], pace[64] = "";
    std::snprintf(held, sizeof(held), "%-2d  %-12s", layout.mesh.extent(kTensorAxes),
                  bytesText(bytes).c_str());
    if (!dry)
      std::snprintf(pace, sizeof(pace), "  %8.2f ms  %-15.9g", layout.training.medianMilliseconds(),
                    layout.training.loss());
    rank.say(message(held, pace, "  ", fits ? "yes" : "no", "\n"));
  }
}

}  // namespace

int main(int argc, char** argv) {
  FsdpTpOptions options;
  return runSample(
      argc, argv,
      {.name = "fsdp_tp",
       .about = "Trains a small GPT over fsdp x tp ranks, each of which may hold so much.",
       .flags = [&](CLI::App& app, SampleOptions& all) { addFlags(app, all, options); },
       .mesh = [&](int ranks) { return meshOf(ranks, options.tp); },
       .train =
           [&](SampleRank& rank) {
             options.compare ? compare(rank, options) : train(rank, options);
           }});
}
