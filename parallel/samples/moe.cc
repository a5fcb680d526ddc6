// moe: a small Llama whose MLPs are mixtures of experts, over ranks that share the experts out, and
// beside it one with a single MLP as wide as what a token goes through, which so has as many active
// parameters, routers aside. `moe --ranks 4 --experts 8 --capacity 1.25`, or with sequences that
// are cut: `moe --ranks 4 --ep 2 --cp 2`

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "parallel/nn/llama.h"
#include "parallel/samples/options/flags.h"
#include "parallel/samples/sample.h"

namespace {

using namespace tutti::parallel;

constexpr double kRate = 0.003;
constexpr int64_t kLast = 10;  // steps, of whose losses a mean is compared

struct MoeOptions {
  ExpertOptions experts{.count = 4};
  int ep = 0;  ///< 0: all ranks that cp leaves
  int cp = 1;
};

void addFlags(CLI::App& app, SampleOptions& training, MoeOptions& o) {
  addTrainingFlags(app, training);
  addExpertFlags(app, o.experts);
  app.add_option("--ep", o.ep,
                 "ranks that share out the experts; default: all. The others share out the batch")
      ->check(CLI::Range(1, 1024));
  app.add_option("--cp", o.cp, "ranks that share out each sequence")->check(CLI::Range(1, 1024));
}

MeshShape meshOf(const MoeOptions& o, int ranks) {
  require(o.experts.count > 0, "--experts 0: this sample is about experts");
  require(ranks % o.cp == 0, "--cp ", o.cp, " does not divide ", ranks, " ranks");
  const int others = ranks / o.cp;
  MeshShape shape;
  shape[Axis::Context] = o.cp;
  shape[Axis::Expert] = o.ep > 0 ? o.ep : others;
  require(others % shape[Axis::Expert] == 0, "--ep ", o.ep, " does not divide ", others, " ranks");
  shape[Axis::Data] = others / shape[Axis::Expert];
  requireExpertsFit(shape, o.experts.count);
  return shape;
}

/// Each expert's MLP is twice as wide inside as outside; of a model without them as many times that
/// as experts that a token goes to.
LlamaOptions modelOf(const GptOptions& sizes, ExpertOptions experts, bool dense) {
  fillExperts(experts);
  return {.context = sizes.context,
          .layers = sizes.layers,
          .width = sizes.width,
          .heads = sizes.heads,
          .kvHeads = sizes.heads,
          .inner = 2 * sizes.width * (dense ? experts.perToken : 1),
          .experts = dense ? ExpertOptions{} : experts};
}

class Training {
 public:
  Training(SampleRank& rank, const LlamaOptions& options)
      : rank_(rank),
        options_(options),
        model_(options),
        engine_(rank.mesh, rank.kernels, model_,
                {.policy = policyOf(rank.options), .seed = kSampleSeed}),
        loader_(text_, options.context, rank.options.batch, kSampleSeed),
        optimizer_(makeAdamW({})) {}

  const StepReport& step(int64_t step) {
    report_ = engine_.step(loader_, step, *optimizer_, kRate);
    const int64_t steps = rank_.options.steps, last = std::min(kLast, steps);
    if (step >= steps - last) meanLoss_ += report_.loss / static_cast<double>(last);
    return report_;
  }
  const StepReport& report() const { return report_; }
  double meanLoss() const { return meanLoss_; }

  /// Of the rows that a rank sends and gets in a step if all experts are used alike: there and back
  /// forward, and backward; before them a count for each expert.
  size_t evenBytes() const {
    const MeshShape& mesh = rank_.mesh.shape();
    if (mesh[Axis::Expert] == 1) return 0;
    const int64_t ranks = mesh.ranks(), blocks = options_.experts.blocksOf(options_.layers);
    const int64_t rows = rank_.options.batch * options_.context * options_.experts.perToken / ranks;
    const int64_t microBatches = engine_.reductionGroups() * mesh[Axis::Context] / ranks;
    return static_cast<size_t>(blocks) *
           (static_cast<size_t>(4 * rows * options_.width) * sizeof(float) +
            static_cast<size_t>(microBatches * options_.experts.count) * sizeof(int32_t));
  }

 private:
  static ShardPolicy policyOf(const SampleOptions& o) {
    ShardPolicy policy = ShardPolicy::ddp();
    policy.deterministic = o.deterministic;
    return policy;
  }

  SampleRank& rank_;
  const LlamaOptions options_;
  const std::vector<uint8_t> text_ = sampleText();
  Llama model_;
  Engine engine_;
  Loader loader_;
  std::unique_ptr<Optimizer> optimizer_;
  StepReport report_;
  double meanLoss_ = 0;
};

std::string percent(double part, double whole) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f%%", whole > 0 ? 100 * part / whole : 0);
  return text;
}

std::string routersLine(const RouterReport& router) {
  char text[96];
  std::snprintf(text, sizeof(text), "  balance %.4f  z %.4f  dropped ", router.balance, router.z);
  return text + percent(router.dropped(), router.choices) + "\n";
}

/// A line for each block that has experts: what they got, of all choices.
std::string loadsText(const RouterReport& router, int64_t experts) {
  const auto each = static_cast<size_t>(experts), blocks = router.loads.size() / each;
  std::string text;
  for (size_t i = 0; i < router.loads.size(); ++i) {
    if (i % each == 0) text += message(text.empty() ? "" : "\n", "loads ", i / each + 1, " ");
    text += " " + percent(router.loads[i], router.choices / static_cast<double>(blocks));
  }
  return text + "\n";
}

void train(SampleRank& rank, const MoeOptions& o) {
  const SampleOptions& all = rank.options;
  const bool dry = rank.mesh.dry();
  const LlamaOptions sparse = modelOf(all.model, o.experts, false),
                     dense = modelOf(all.model, o.experts, true);
  rank.say(message(static_cast<int64_t>(parameterCount(sparse)), " parameters; the dense model ",
                   static_cast<int64_t>(parameterCount(dense)), "\n"));
  Training experts(rank, sparse);
  for (int64_t step = 0; step < all.steps; ++step) {
    rank.show(step, experts.step(step));
    if (!dry) rank.say(routersLine(experts.report().router));
  }
  if (!dry) rank.say(loadsText(experts.report().router, o.experts.count));
  rank.say(message("rank 0 exchanged ", experts.report().experts.allToAll.bytes,
                   " bytes in AllToAll in a step; if experts were used alike ", experts.evenBytes(),
                   "\n"));
  if (dry) return;
  Training plain(rank, dense);
  for (int64_t step = 0; step < all.steps; ++step) plain.step(step);
  rank.say(message("mean loss of the last ", std::min(kLast, all.steps), " steps: ",
                   experts.meanLoss(), ", of the dense model ", plain.meanLoss(), "\n"));
}

}  // namespace

int main(int argc, char** argv) {
  MoeOptions options;
  return runSample(
      argc, argv,
      {.name = "moe",
       .about = "Trains a small mixture of experts, and a dense model beside it.",
       .flags = [&](CLI::App& app, SampleOptions& all) { addFlags(app, all, options); },
       .mesh = [&](int ranks) { return meshOf(options, ranks); },
       .train = [&](SampleRank& rank) { train(rank, options); }});
}
