// float16 with a loss scale: what it is after each step, that it changes no bit where nothing
// overflows, and that an overflow on any one rank skips the step on all of them.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "parallel/checkpoint/checkpoint_reader.h"
#include "parallel/checkpoint/names.h"
#include "tests/parallel/parity/overflow.h"
#include "tests/parallel/parity/rungs.h"
#include "tests/support/outcome.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

TEST(LossScale, GrowsAfterGoodStepsAndShrinksWithOverflows) {
  LossScale scale({.initial = 8, .growthSteps = 3, .minimum = 2});
  const auto after = [&](const std::string& steps) {
    for (const char step : steps) EXPECT_TRUE(scale.update(step == '!'));
    return scale.value();
  };
  EXPECT_EQ(after(".."), 8);
  EXPECT_EQ(after("."), 16);
  EXPECT_EQ(after("..!"), 8);  // and the good steps before count no more
  EXPECT_EQ(after(".."), 8);
  EXPECT_EQ(after("."), 16);
  EXPECT_EQ(after("!!!"), 2);
  EXPECT_FALSE(scale.update(true));
  EXPECT_EQ(after("..."), 4);
}

TEST(LossScale, MayTolerateSomeOverflows) {
  LossScale scale({.initial = 8, .growthSteps = 2, .patience = 3});
  for (const bool overflow : {true, false, true}) scale.update(overflow);
  EXPECT_EQ(scale.value(), 8);
  EXPECT_EQ(scale.state(), (LossScaleState{.current = 8, .goodSteps = 0, .patience = 1}));
  LossScale other({.initial = 1});
  other.restored(scale.state());
  other.update(true);
  EXPECT_EQ(other.value(), 4);
  for (const bool overflow : {false, false}) scale.update(overflow);
  EXPECT_EQ(scale.state(), (LossScaleState{.current = 16, .goodSteps = 0, .patience = 3}));
  LossScale fixed({.initial = 4, .growthSteps = 0});
  for (const bool overflow : {true, true, false}) EXPECT_TRUE(fixed.update(overflow));
  EXPECT_EQ(fixed.value(), 4);
}

TEST(LossScale, RefusesWhatRounds) {
  for (const LossScaling& options :
       {LossScaling{.initial = 3}, LossScaling{.initial = 0}, LossScaling{.initial = -2},
        LossScaling{.initial = std::nan("")}, LossScaling{.growth = 1}, LossScaling{.growth = 1.5},
        LossScaling{.growthSteps = -1}, LossScaling{.patience = 0}, LossScaling{.minimum = 0},
        LossScaling{.initial = 1, .minimum = 2}})
    EXPECT_EQ(tests::outcomeOf([&] { LossScale scale(options); }).code, ErrorCode::InvalidArgument);
}

// A power of two rounds nothing in float32: with it and without it the training has the same bits,
// clipped and not.
TEST(LossScale, ChangesNoBits) {
  for (const double clip : {0.0, 0.05})
    for (const Arrangement& layout :
         {arrangement(""), arrangement("fsdp=2,tp=2", zero(3)), arrangement("dp=2,pp=2")}) {
      RunOptions options =
          under(layout, {.model = kRunGpt, .steps = 4, .adam = true, .clip = clip});
      RunResult plain = run(options)[0];
      plain.gradients.clear();
      options.lossScaling = LossScaling{.growthSteps = 2};
      RunResult scaled = run(options)[0];
      EXPECT_EQ(scaled.losses, plain.losses) << layout.name;
      EXPECT_EQ(scaled.norms, plain.norms) << layout.name;
      EXPECT_EQ(scaled.weights, plain.weights) << layout.name;
      EXPECT_EQ(scaled.validation, plain.validation) << layout.name;
    }
}

// The same with experts, whose routers have losses of their own: these are scaled too.
TEST(LossScale, ChangesNoBitsOfRouters) {
  GptOptions mixture = kRunGpt;
  mixture.experts = {.count = 4, .perToken = 2, .auxLoss = 0.1, .zLoss = 0.01};
  for (const Arrangement& layout : {arrangement(""), arrangement("ep=2")}) {
    RunOptions options = under(layout, {.model = mixture, .steps = 3, .adam = true});
    const RunResult plain = run(options)[0];
    options.lossScaling = LossScaling{.growthSteps = 2};
    const RunResult scaled = run(options)[0];
    EXPECT_EQ(scaled.losses, plain.losses) << layout.name;
    EXPECT_EQ(scaled.weights, plain.weights) << layout.name;
  }
}

/// Every axis, every way to share out, and each rank.
TEST(LossScale, AnOverflowOfOneRankSkipsTheStepOnAll) {
  const auto expectSkipped = [](const Arrangement& layout, const ModelOptions& model) {
    for (int victim = 0; victim < layout.mesh.ranks(); ++victim)
      for (const double poison : {HUGE_VAL, std::nan("")})
        expectWithin(overflowOnOneRank(layout, model, victim, poison));
  };
  for (const Arrangement& layout :
       {arrangement("dp=2"), arrangement("dp=2,fsdp=2", zero(1)), arrangement("fsdp=2", zero(2)),
        arrangement("fsdp=2", zero(3)), arrangement("fsdp=2", fsdp(Reshard::Never)),
        arrangement("tp=2"), arrangement("tp=2", zero(0), true), arrangement("pp=2"),
        arrangement("dp=2,tp=2,pp=2"), arrangement("ep=2"), arrangement("fsdp=2", zero(0)),
        arrangement("cp=2")})
    expectSkipped(layout, kRunGpt);
  LlamaOptions tied = kRunLlama;
  tied.tied = true;
  expectSkipped(arrangement("tp=2,rep=2"), kRunLlama);
  expectSkipped(arrangement("pp=2"), tied);
}

// A scale that is far too large comes down by itself, and nothing is learned until then.
TEST(LossScale, ComesDownUntilGradientsFit) {
  DeviceMesh mesh;
  SmallTraining training(mesh, kRunGpt, ShardPolicy::ddp(),
                         {.types = DType::Float16, .scaling = {.initial = 0x1p40}});
  const auto before = storedParts(training.engine.store(), false);
  int skipped = 0;
  double last = 0x1p41;
  for (StepReport report = training.step(); report.skipped; report = training.step()) {
    EXPECT_FALSE(std::isfinite(report.gradientNorm));
    EXPECT_TRUE(std::isfinite(report.loss));
    EXPECT_FALSE(report.lost);
    EXPECT_EQ(report.lossScale, last / 2);
    last = report.lossScale;
    const auto now = storedParts(training.engine.store(), false);
    for (size_t i = 0; i < now.size(); ++i) EXPECT_EQ(now[i].weight, before[i].weight);
    EXPECT_EQ(training.engine.store().steps(), 0);
    ASSERT_LT(++skipped, 60);
  }
  EXPECT_GT(skipped, 5);
  EXPECT_EQ(training.engine.store().steps(), 1);
}

RunOptions half(const Arrangement& layout, int steps) {
  RunOptions options{.types = DType::Float16,
                     .groups = 8,
                     .steps = steps,
                     .adam = true,
                     .lossScaling = LossScaling{.initial = 256, .growthSteps = 2}};
  options.policy.deterministic = true;
  return under(layout, options);
}

TEST(Float16, HasTheSameBitsUnderAnyLayout) {
  const RunResult one = run(half(arrangement(""), 6))[0];
  EXPECT_LT(one.losses.back(), one.losses.front());
  for (const Arrangement& layout :
       {arrangement("dp=2"), arrangement("fsdp=4", zero(3)), arrangement("fsdp=2", zero(1)),
        arrangement("dp=2,fsdp=2", zero(2))})
    expectWithin(sameBits(one, layout.name, half(layout, 6)));
}

// The scale has grown once, and half of the way to the next time.
TEST(Float16, GoesOnWithTheScaleThatWasSaved) {
  RunResult rest = run(half(arrangement(""), 6))[0];
  rest.losses.erase(rest.losses.begin(), rest.losses.begin() + 3);
  rest.norms.erase(rest.norms.begin(), rest.norms.begin() + 3);
  const tests::TemporaryFolder folder;
  RunOptions first = half(arrangement("dp=2"), 3);
  first.saveTo = folder.path();
  run(first);
  const std::filesystem::path saved = *latestCheckpoint(first.saveTo);
  EXPECT_EQ(CheckpointReader(saved).metadata().at("loss scale"), MetadataValue(512.0));
  for (const Arrangement& layout : {arrangement(""), arrangement("fsdp=2", zero(3))}) {
    RunOptions second = half(layout, 3);
    second.loadFrom = saved;
    expectWithin(sameBits(rest, layout.name, second));
  }
}

}  // namespace
}  // namespace tutti::parallel
