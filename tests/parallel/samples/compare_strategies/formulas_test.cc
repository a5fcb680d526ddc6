// The formulas of the books, by numbers; what collectives send; and that the tables have a column
// for each, with its unit.

#include "parallel/samples/compare_strategies/formulas.h"

#include <gtest/gtest.h>

#include <sstream>

#include "parallel/samples/compare_strategies/strategy_tables.h"

namespace tutti::parallel {
namespace {

const ModelOptions kModel =
    GptOptions{.vocabulary = 256, .context = 16, .layers = 2, .width = 64, .heads = 4};
const double kParameters = parameterCount(std::get<GptOptions>(kModel));
const TrainingJob kJob{.model = kModel, .types = DType::Float32};
/// As the paper counts.
const TrainingJob kMixed{.model = kModel,
                         .types = {DType::BFloat16, DType::Float32, DType::BFloat16}};

TrainingLayout layoutOf(const std::string& mesh, int zero, Reshard::When reshard = {}) {
  return {.mesh = MeshShape::parse(mesh), .zero = zero, .reshard = reshard};
}

TEST(Formulas, AreThoseOfZero) {
  const auto state = [](const TrainingLayout& layout, const TrainingJob& job = kJob) {
    const StateBytes bytes = formulaState(job, layout);
    return std::vector<double>{bytes.parameters / kParameters, bytes.gradients / kParameters,
                               bytes.optimizer / kParameters};
  };
  EXPECT_EQ(state(layoutOf("dp=4", 0)), (std::vector<double>{4, 4, 8}));
  EXPECT_EQ(state(layoutOf("fsdp=4", 1)), (std::vector<double>{4, 4, 2}));
  EXPECT_EQ(state(layoutOf("fsdp=4", 2)), (std::vector<double>{4, 1, 2}));
  EXPECT_EQ(state(layoutOf("fsdp=4", 3)), (std::vector<double>{1, 1, 2}));
  EXPECT_EQ(state(layoutOf("dp=2,fsdp=2", 3)), (std::vector<double>{2, 2, 4}));
  EXPECT_EQ(state(layoutOf("fsdp=2,tp=2", 3)), (std::vector<double>{1, 1, 2}));
  EXPECT_EQ(state(layoutOf("cp=4", 0)), (std::vector<double>{4, 4, 8}));
  EXPECT_EQ(state(layoutOf("dp=4", 0), kMixed), (std::vector<double>{2, 2, 12}));
  EXPECT_EQ(state(layoutOf("fsdp=4", 1), kMixed), (std::vector<double>{2, 2, 3}));
  EXPECT_EQ(state(layoutOf("fsdp=4", 2), kMixed), (std::vector<double>{2, 0.5, 3}));
  EXPECT_EQ(state(layoutOf("fsdp=4", 3), kMixed), (std::vector<double>{0.5, 0.5, 3}));
}

TEST(Formulas, SayWhatDataParallelRanksSend) {
  const auto sent = [](const TrainingLayout& layout) {
    const auto bytes = formulaSent(kJob, layout);
    EXPECT_EQ(formulaSent(kMixed, layout), bytes ? std::optional(*bytes / 2) : std::nullopt);
    return bytes.value_or(-1) / (4 * kParameters);
  };
  EXPECT_DOUBLE_EQ(sent(layoutOf("dp=4", 0)), 1.5);
  EXPECT_DOUBLE_EQ(sent(layoutOf("fsdp=4", 1)), 1.5);
  EXPECT_DOUBLE_EQ(sent(layoutOf("fsdp=4", 2)), 1.5);
  EXPECT_DOUBLE_EQ(sent(layoutOf("fsdp=4", 3)), 2.25);
  EXPECT_DOUBLE_EQ(sent(layoutOf("fsdp=4", 3, Reshard::Never)), 1.5);
  EXPECT_DOUBLE_EQ(sent(layoutOf("dp=2,fsdp=2", 3)), 1.5 + 0.5);
  EXPECT_LT(sent(layoutOf("tp=4", 0)), 0);
}

TEST(Formulas, CountWhatLeavesARank) {
  const MeshShape mesh = MeshShape::parse("dp=2,tp=4");
  Collectives collectives;
  collectives[{Axis::Tensor}].allReduce.add(800);
  EXPECT_EQ(sentBytes(collectives, mesh), 1200);
  collectives[{Axis::Tensor}].allGather.add(400);
  collectives[{Axis::Data}].reduceScatter.add(100);
  EXPECT_EQ(sentBytes(collectives, mesh), 1200 + 300 + 50);
  collectives[{Axis::Data}].allToAll.add(20);
  collectives[{Axis::Data}].sent.add(7);
  EXPECT_EQ(sentBytes(collectives, mesh), 1200 + 300 + 50 + 10 + 7);
}

// Buffers of collectives, gathered weights and gradients in a buffer are no state.
TEST(Formulas, TakeTheStateFromWhatIsHeld) {
  const StoreMemory memory{.weights = 500,
                           .masters = 30,
                           .gradients = 70,
                           .gradientShards = 11,
                           .optimizer = 8,
                           .staging = 1000,
                           .gathered = 400,
                           .borrowed = 60};
  EXPECT_EQ(stateOf(memory, kJob.types), (StateBytes{130, 21, 8}));
  EXPECT_EQ(stateOf(memory, kMixed.types), (StateBytes{100, 21, 38}));
  for (const TrainingJob& job : {kJob, kMixed})
    EXPECT_EQ(stateOf(memory, job.types).total(), static_cast<double>(memory.state()));
  StrategyUse use{.memory = {.store = memory, .between = 5}};
  use.memory.untilBackward.peak = 2;
  use.memory.untilWeights.peak = 3;
  EXPECT_EQ(use.savedActivations(), 5u);
  EXPECT_EQ(use.buffers(), 1000 + 400 + 60 + 5);
}

TEST(StrategyTables, HaveUnits) {
  StrategyUse use{.strategy = "DDP", .formula = {1 << 20, 1 << 20, 2 << 20}, .sent = 3 << 19};
  use.memory.store = {.weights = 1 << 20, .gradientShards = 1 << 20, .optimizer = 2 << 20};
  use.predictedSeconds = 0.0125;
  EXPECT_EQ(
      memoryTable({use}, true),
      "| strategy | parameters, MiB | gradients, MiB | optimizer, MiB | state, MiB | formula, "
      "MiB | ratio | saved activations, MiB | buffers, MiB | total, MiB |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
      "| DDP | 1.00 | 1.00 | 2.00 | 4.00 | 4.00 | 1.000 | 0.00 | 0.00 | 4.00 |\n");
  EXPECT_EQ(stepTable({use}, true),
            "| strategy | sent, MiB | formula, MiB | predicted, ms |\n"
            "| --- | ---: | ---: | ---: |\n| DDP | 1.50 |  | 12.5 |\n");
  use.sentFormula = 3 << 20;
  use.measured = {.seconds = 0.02, .tokensPerSecond = 25600};
  use.measured->shares[Awaited::Data] = 0.25;
  EXPECT_EQ(stepTable({use}, true),
            "| strategy | sent, MiB | formula, MiB | tokens/s | step, ms | idle, % | pipeline, % | "
            "data, % | tensor, % | context, % | experts, % | all, % | predicted, ms |\n"
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | "
            "---: |\n"
            "| DDP | 1.50 | 3.00 | 25600 | 20.0 | 25 |  | 25 |  |  |  |  | 12.5 |\n");
  const std::string plain = stepTable({use}, false);
  EXPECT_EQ(plain.find("strategy  sent, MiB  formula, MiB  tokens/s"), 0u) << plain;
}

}  // namespace
}  // namespace tutti::parallel
