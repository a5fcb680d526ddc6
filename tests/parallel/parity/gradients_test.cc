// Rungs 1 and 2: what layouts compute in a step, or two, against one rank, in float64 and float32.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/parallel/parity/one_step.h"
#include "tests/parallel/parity/rungs.h"

namespace tutti::parallel {
namespace {

/// With it the first step of four micro-batches has one without a label that counts.
constexpr uint64_t kSeedOfAnEmptyMicroBatch = 9;

/// One rank's step, and every layout against it.
class Rung1 {
 public:
  explicit Rung1(const LadderModel& model) : model_(model) {}

  void climb(const Arrangement& layout, StepOptions options = {}) {
    const int microBatches = options.groups * options.rounds;
    auto found = one_.find(microBatches);
    if (found == one_.end())
      found = one_.emplace(microBatches, wholeStep(model_, arrangement(""), {microBatches})).first;
    expectWithin(float64Step(found->second, model_, layout, options));
  }
  void climb(const std::string& mesh, const ShardPolicy& policy = zero(0)) {
    for (const bool sequence : {false, true}) climb(arrangement(mesh, policy, sequence));
  }

 private:
  const LadderModel model_;
  std::map<int, WholeStep> one_;  // by micro-batches
};

/// So many micro-batches that `ranks` divide them.
int groupsOf(int ranks) { return ranks == 3 ? 6 : std::max(ranks, 4); }

// 44 wide, 37 tokens, 13 within: rows are shared out unevenly, also none.
TEST(Rung1, DataParallelRanks) {
  for (const LadderModel& model : {ladderGpt(11), ladderLlama(11, 1), ladderLlama(11, 11, true)}) {
    Rung1 rung(model);
    for (int ranks = 2; ranks <= 8; ++ranks)
      for (const Arrangement& layout : layouts(ranks)) rung.climb(layout, {groupsOf(ranks)});
  }
}

// What is added over the ranks in two rounds is what is added in one.
TEST(Rung1, Rounds) {
  Rung1 rung(ladderGpt(11));
  for (const Arrangement& layout : layouts(4)) rung.climb(layout, {4, 2});
  for (const Arrangement& layout : layouts(3)) rung.climb(layout, {3, 2});
}

TEST(Rung1, TensorParallelRanks) {
  for (const auto& [heads, ranks] :
       {std::pair{12, 2}, {12, 3}, {12, 4}, {10, 5}, {12, 6}, {7, 7}, {8, 8}}) {
    Rung1 gpt(ladderGpt(heads)), llama(ladderLlama(heads, heads, heads == 8));
    for (Rung1* rung : {&gpt, &llama}) rung->climb(message("tp=", ranks));
  }
}

TEST(Rung1, WeightGradientsMayComeAfterBackward) {
  for (const bool sequence : {false, true}) {
    Rung1(ladderGpt(12)).climb(arrangement("tp=3", zero(0), sequence), {.defer = true});
    Rung1(ladderLlama(12, 12))
        .climb(arrangement("fsdp=2,tp=2", zero(2), sequence), {.defer = true});
  }
}

// Keys and values of which each rank has its own head or shares one.
TEST(Rung1, FewerHeadsOfKeysThanRanks) {
  Rung1 two(ladderLlama(8, 2)), one(ladderLlama(12, 1, true)), four(ladderLlama(8, 4));
  for (const std::string mesh : {"tp=2", "tp=2,rep=2", "tp=2,rep=4", "dp=2,tp=2,rep=2"})
    two.climb(mesh);
  for (const int stage : {1, 2, 3}) two.climb("fsdp=2,tp=2,rep=2", zero(stage));
  for (const std::string mesh : {"rep=2", "rep=3", "rep=4", "rep=6"}) one.climb(mesh);
  one.climb("fsdp=2,rep=4", zero(2));
  for (const std::string mesh : {"tp=2", "tp=4,rep=2"}) four.climb(mesh);
}

// Fewer columns of the MLP than ranks, and fewer tokens of the vocabulary.
TEST(Rung1, RanksMayHaveNothing) {
  LlamaOptions narrow = std::get<LlamaOptions>(ladderLlama(4, 4).options);
  narrow.inner = 3;
  narrow.vocabulary = 3;
  Rung1 rung({"a narrow llama", narrow});
  rung.climb("tp=4");
  rung.climb("fsdp=2,tp=4", zero(3));
}

// Tensor parallelism with each of the others, and all of them together.
TEST(Rung1, Pairs) {
  for (const LadderModel& model : {ladderGpt(12), ladderLlama(12, 12)}) {
    Rung1 rung(model);
    for (const std::string mesh : {"dp=2,tp=2", "dp=4,tp=2", "dp=2,tp=3", "dp=2,tp=4"})
      rung.climb(mesh);
    for (const std::string mesh : {"fsdp=2,tp=2", "fsdp=2,tp=3", "fsdp=2,tp=4", "fsdp=4,tp=2"})
      for (const bool sequence : {false, true})
        for (const Arrangement& layout : sharings(mesh, sequence)) rung.climb(layout);
    for (const int stage : {1, 2, 3}) rung.climb("dp=2,fsdp=2,tp=2", zero(stage));
  }
}

/// Ring attention, and heads that are exchanged.
void climbBoth(Rung1& rung, const Arrangement& layout, const StepOptions& options = {}) {
  rung.climb(layout, options);
  rung.climb(exchanging(layout), options);
}

// Of seven tokens two ranks have three and four, eight of them one or none.
TEST(Rung1, ContextParallelRanks) {
  for (const auto& [heads, meshes] :
       {std::pair{12, std::vector{"cp=2", "cp=3", "cp=4"}}, {8, std::vector{"cp=8"}}}) {
    Rung1 gpt(ladderGpt(heads)), llama(ladderLlama(heads, heads, heads == 8));
    for (const std::string mesh : meshes)
      for (Rung1* rung : {&gpt, &llama}) climbBoth(*rung, arrangement(mesh));
  }
}

// Keys and values of which each rank gets some heads, or one that it shares.
TEST(Rung1, FewerHeadsOfKeysThanContextParallelRanks) {
  Rung1 two(ladderLlama(8, 2)), one(ladderLlama(12, 1, true));
  for (const std::string mesh : {"cp=2", "cp=4", "cp=2,tp=2", "cp=2,tp=2,rep=2"})
    climbBoth(two, arrangement(mesh));
  for (const std::string mesh : {"cp=3", "cp=2,rep=2"}) climbBoth(one, arrangement(mesh));
}

// Context parallelism with each of the others, and all of them together.
TEST(Rung1, ContextParallelPairs) {
  for (const LadderModel& model : {ladderGpt(12), ladderLlama(12, 12)}) {
    Rung1 rung(model);
    climbBoth(rung, arrangement("dp=2,cp=2"), {.rounds = 2});
    for (const int stage : {1, 2, 3}) climbBoth(rung, arrangement("fsdp=2,cp=2", zero(stage)));
    climbBoth(rung, arrangement("fsdp=2,cp=3", fsdp(Reshard::Never)));
    for (const bool sequence : {false, true}) {
      climbBoth(rung, arrangement("cp=2,tp=2", zero(0), sequence));
      climbBoth(rung, arrangement("cp=3,tp=2", zero(0), sequence), {.defer = true});
      climbBoth(rung, arrangement("fsdp=2,cp=2,tp=2", zero(3), sequence));
    }
  }
}

// Attention on one rank and the MLP on another, against both on one; and both cut.
TEST(Rung1, PlacedBranches) {
  Rung1 placed(ladderBranches(4, Branches::Placed)), cut(ladderBranches(4, Branches::Parallel));
  for (const std::string mesh : {"tp=2", "dp=2,tp=2", "ep=2,tp=2"}) {
    placed.climb(arrangement(mesh));
    cut.climb(mesh);
  }
  placed.climb(arrangement("tp=2"), {.rounds = 2, .defer = true});
  for (const Arrangement& layout : sharings("fsdp=2,tp=2")) placed.climb(layout);
  climbBoth(placed, arrangement("cp=2,tp=2"));
  cut.climb("tp=4");
  EXPECT_THROW(placed.climb(arrangement("tp=4")), Error);
  EXPECT_THROW(placed.climb(arrangement("tp=2", zero(0), true)), Error);
}

TEST(Rung1, PlacedBranchesInAPipeline) {
  RunOptions options{.types = DType::Float64, .model = kRunGpt, .steps = 2};
  std::get<GptOptions>(options.model).branches = Branches::Placed;
  const RunResult one = run(options)[0];
  for (const Arrangement& layout :
       {piped(arrangement("pp=2,tp=2"), {}),
        piped(arrangement("pp=2,fsdp=2,tp=2", zero(3)), {.schedule = ScheduleKind::ZeroBubbleH1})})
    expectWithin(float64Steps(one, layout.name + ", branches placed", under(layout, options)));
}

// Through the engine, with clipping; a second step from the first one's weights, and validation.
TEST(Rung1, WholeSteps) {
  for (const RunModel& model : runModels()) {
    const RunOptions options{.types = DType::Float64, .model = model.options, .steps = 2};
    const RunResult one = run(options)[0];
    for (const Arrangement& layout : layoutsOfEachKind(model.heads))
      expectWithin(float64Steps(one, layout.name + ", " + model.name, under(layout, options)));
  }
}

// A batch that its micro-batches do not divide, against the same one in a single micro-batch: a
// mean of means would weigh the tokens of a small micro-batch more than others.
TEST(Rung1, UnevenMicroBatchesCountTokensAlike) {
  for (const RunModel& model : runModels()) {
    RunOptions options{
        .types = DType::Float64, .model = model.options, .batch = 7, .groups = 1, .steps = 2};
    const RunResult one = run(options)[0];
    for (const auto& [layout, groups] : {std::pair{arrangement(""), 4},
                                         {arrangement("dp=2"), 4},
                                         {arrangement("dp=4"), 4},
                                         {arrangement("dp=3"), 3},
                                         {arrangement("dp=3"), 6},
                                         {arrangement("fsdp=2", zero(1)), 4},
                                         {arrangement("fsdp=3", zero(2)), 3},
                                         {arrangement("fsdp=5", zero(3)), 5},
                                         {arrangement("dp=2,fsdp=2", zero(3)), 4},
                                         {arrangement("dp=2,tp=2", zero(0), true), 4}}) {
      options.groups = groups;
      expectWithin(float64Steps(one,
                                message(layout.name, ", ", groups, " micro-batches, ", model.name),
                                under(layout, options)));
    }
    options.groups = 2;
    options.rounds = 2;
    expectWithin(
        float64Steps(one, "dp=2, 2 rounds, " + model.name, under(arrangement("dp=2"), options)));
  }
}

/// Labels that count in each of the micro-batches of a step.
std::vector<int64_t> countedIn(const RunOptions& options, int64_t step) {
  const auto text = makeText();
  Loader loader = makeLoader(text, options);
  std::vector<int64_t> counted;
  for (int i = 0; i < options.groups; ++i) {
    const Batch batch = loader.next(step, {i, options.groups});
    const auto* const labels = batch.labels.as<int32_t>();
    counted.push_back(std::count_if(labels, labels + batch.labels.count(),
                                    [](int32_t label) { return label >= 0; }));
  }
  return counted;
}

// Documents with padding and prompts: each micro-batch, and so each rank, counts other labels, and
// one none, through the engine and against a single micro-batch.
TEST(Rung1, LabelsThatDoNotCount) {
  for (const RunModel& model : runModels()) {
    RunOptions options{.types = DType::Float64,
                       .model = model.options,
                       .batch = 4,
                       .documents = true,
                       .steps = 2,
                       .seed = kSeedOfAnEmptyMicroBatch};
    const std::vector<int64_t> counted = countedIn(options, 0);
    EXPECT_EQ(std::set(counted.begin(), counted.end()).size(), counted.size());
    EXPECT_EQ(std::count(counted.begin(), counted.end(), 0), 1);
    options.groups = 1;
    const RunResult one = run(options)[0];
    options.groups = 4;
    for (const Arrangement& layout : layoutsOfEachKind(model.heads))
      expectWithin(
          float64Steps(one, layout.name + ", documents, " + model.name, under(layout, options)));
    options.groups = 2;
    options.rounds = 2;
    expectWithin(float64Steps(one, "dp=2, 2 rounds, documents, " + model.name,
                              under(arrangement("dp=2"), options)));
  }
}

TEST(Rung2, Float32IsAsNearAsOneRankIs) {
  for (const RunModel& model : runModels()) {
    const RunOptions options{.model = model.options, .clip = 0.1};
    const Float32Reference reference = float32Reference(options);
    EXPECT_GT(reference.one.norms[0], 0.1);
    std::vector<Arrangement> layouts = layoutsOfEachKind(model.heads);
    layouts.push_back(arrangement("pp=2,dp=2"));
    for (const Arrangement& layout : layouts)
      expectWithin(float32Step(reference, layout.name + ", " + model.name, under(layout, options)));
  }
}

// Of three positions four ranks have one or none.
TEST(Rung2, SixteenBitsAreAsNearWhereRanksHaveNoPosition) {
  for (RunModel model : runModels()) {
    std::visit([](auto& o) { o.context = 3; }, model.options);
    for (const DType type : {DType::BFloat16, DType::Float16}) {
      const RunOptions options{.types = type, .model = model.options, .clip = 0.1};
      const Float32Reference reference = float32Reference(options);
      for (const Arrangement& layout :
           {arrangement("cp=4"), exchanging(arrangement("cp=4")), arrangement("cp=4,tp=2"),
            arrangement("fsdp=2,cp=4", zero(3))})
        expectWithin(narrowStep(reference,
                                message(layout.name, ", ", model.name, ", ", toString(type)),
                                under(layout, options)));
    }
  }
}

// Where no rows but the batch's divide.
TEST(Rung2, AnyNumberOfRanks) {
  for (const RunModel& model : runModels())
    for (const int ranks : {3, 5, 6, 7}) {
      const RunOptions options{.model = model.options, .groups = ranks, .clip = 0.1};
      const Float32Reference reference = float32Reference(options);
      for (const Arrangement& layout :
           {arrangement(message("dp=", ranks)), arrangement(message("fsdp=", ranks), zero(1)),
            arrangement(message("fsdp=", ranks), zero(2)),
            arrangement(message("fsdp=", ranks), zero(3))})
        expectWithin(
            float32Step(reference, layout.name + ", " + model.name, under(layout, options)));
    }
}

}  // namespace
}  // namespace tutti::parallel
