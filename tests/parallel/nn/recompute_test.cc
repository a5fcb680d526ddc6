// Activations that are recomputed: no bit changes, memory falls by what is not kept, and
// collectives come again with what has them.

#include <gtest/gtest.h>

#include "parallel/dry/dry_run.h"
#include "tests/parallel/parity/rungs.h"

namespace tutti::parallel {
namespace {

constexpr GptOptions kGpt{.context = 16, .layers = 4, .width = 32, .heads = 4};
constexpr LlamaOptions kLlama{.context = 16,
                              .layers = 4,
                              .width = 32,
                              .heads = 4,
                              .kvHeads = 2,
                              .inner = 45,
                              .ropeBase = 100};

ModelOptions with(ModelOptions model, Recompute recompute) {
  std::visit([&](auto& options) { options.recompute = recompute; }, model);
  return model;
}

TEST(Recompute, ChangesNoBit) {
  for (const ModelOptions& model : {ModelOptions(kGpt), ModelOptions(kLlama)})
    for (const Arrangement& layout :
         {arrangement(""), arrangement("dp=2,fsdp=2", zero(3)), arrangement("tp=2", zero(0), true),
          arrangement("cp=2"), exchanging(arrangement("cp=2")),
          piped(arrangement("pp=2"), {.schedule = ScheduleKind::ZeroBubbleV}),
          piped(arrangement("pp=2,tp=2"), {.schedule = ScheduleKind::OneFOneB})}) {
      RunOptions options{.model = model, .steps = 3, .adam = true};
      options.policy.deterministic = true;
      options = under(layout, options);
      const ModelOptions keeps = options.model;
      const RunResult kept = run(options)[0];
      for (const Recompute recompute : {Recompute::Attention, Recompute::Block}) {
        options.model = with(keeps, recompute);
        const char* what =
            recompute == Recompute::Block ? ", recompute block" : ", recompute attention";
        expectWithin(sameBits(kept, layout.name + what, options));
      }
    }
}

/// What a step of one micro-batch takes, without data.
DryRun dryOf(const std::string& mesh, const GptOptions& options) {
  Gpt model(options);
  const auto optimizer = makeSgd({});
  return dryRun({.mesh = MeshShape::parse(mesh),
                 .engine = {.reductionGroups = 1},
                 .batch = 4,
                 .context = options.context},
                model, *optimizer);
}

GptOptions gptOf(Recompute recompute, int64_t layers) {
  GptOptions options = kGpt;
  options.recompute = recompute;
  options.layers = layers;
  return options;
}

/// Bytes of activations that one more layer takes.
size_t bytesOfALayer(Recompute recompute) {
  const auto held = [&](int64_t layers) {
    const TrainingMemory memory = dryOf("", gptOf(recompute, layers)).memory;
    return memory.untilBackward.peak + memory.untilWeights.peak;
  };
  return held(4) - held(3);
}

TEST(Recompute, HoldsWhatTheFormulasSay) {
  const size_t tokens = 4 * 16, width = 32, heads = 4, size = sizeof(float);
  const size_t all = bytesOfALayer(Recompute::None);
  EXPECT_EQ(all, tokens * (16 * width + heads + 4) * size);
  EXPECT_EQ(bytesOfALayer(Recompute::Attention), all - tokens * (width + heads) * size);
  EXPECT_EQ(bytesOfALayer(Recompute::Block), tokens * width * size);
  // And as an estimate, which is of elements.
  for (const Recompute recompute : {Recompute::None, Recompute::Attention, Recompute::Block}) {
    const double more = savedPerToken(gptOf(recompute, 4)) - savedPerToken(gptOf(recompute, 3));
    EXPECT_EQ(static_cast<double>(bytesOfALayer(recompute)),
              more * static_cast<double>(tokens * size));
  }
}

// Of the two AllReduces of a block's forward.
TEST(Recompute, ComputesForwardsCollectivesAgain) {
  const auto calls = [](Recompute recompute) {
    return dryOf("tp=2", gptOf(recompute, 4)).tensor.allReduce.calls;
  };
  EXPECT_EQ(calls(Recompute::Attention), calls(Recompute::None));
  EXPECT_EQ(calls(Recompute::Block), calls(Recompute::None) + 2 * 4);
}

}  // namespace
}  // namespace tutti::parallel
