// Rung 4: twenty steps of SGD in float32 with one rank's losses, and a longer run of AdamW in
// bfloat16 within what other seeds change.

#include <gtest/gtest.h>

#include "tests/parallel/parity/rungs.h"
#include "tests/parallel/parity/scoped_mutation.h"

namespace tutti::parallel {
namespace {

TEST(Rung4, TwentyStepsOfSgd) {
  for (const RunModel& model : runModels()) {
    const RunOptions options{.model = model.options, .steps = 20};
    const RunResult one = run(options)[0];
    EXPECT_LT(one.losses.back(), one.losses.front() - 0.5);
    std::vector<Arrangement> layouts = layoutsOfEachKind(model.heads);
    layouts.push_back(arrangement("pp=2,dp=2"));
    for (const Arrangement& layout : layouts)
      expectWithin(sameLosses(one, layout.name + ", " + model.name, under(layout, options)));
  }
}

TEST(Rung4, TwentyStepsOfSgdOnAnyNumberOfRanks) {
  for (const RunModel& model : runModels())
    for (const Arrangement& layout :
         {arrangement("dp=3"), arrangement("fsdp=5", zero(3)), arrangement("fsdp=6", zero(1)),
          arrangement("fsdp=7", zero(2))}) {
      const RunOptions options{.model = model.options, .groups = layout.mesh.ranks(), .steps = 20};
      const RunResult one = run(options)[0];
      expectWithin(sameLosses(one, layout.name + ", " + model.name, under(layout, options)));
    }
}

// Of 24 seeds these are the three, the last one between the others in all windows, by which this
// one has the most room on both sides: 0.05 nats for GPT and 0.03 for Llama, where layouts differ
// by 0.004. All layouts take that last one.
struct Seeds {
  uint64_t one, other, between;
};
constexpr Seeds kSeeds[] = {{10, 18, 15}, {12, 23, 13}};

RunOptions longRun(const ModelOptions& model, uint64_t seed) {
  return {.types = DType::BFloat16, .model = model, .steps = 80, .adam = true, .seed = seed};
}

TEST(Rung4, EightyStepsOfAdamWStayWithinTheSeedsBand) {
  const Seeds* seeds = kSeeds;
  for (const RunModel& model : runModels()) {
    const auto [one, other, between] = *seeds++;
    const RunOptions options = longRun(model.options, between);
    const Band band = bandOf(options, {one, other, between});
    for (const Arrangement& layout :
         {arrangement("dp=4"), arrangement("fsdp=4", zero(3)), arrangement("dp=2,fsdp=2", zero(2)),
          arrangement("tp=2"), arrangement(model.heads, zero(0), true), arrangement("dp=2,tp=2"),
          arrangement("fsdp=2,tp=2", zero(1)), arrangement("fsdp=2,tp=2", zero(3), true),
          arrangement("cp=2"), exchanging(arrangement("fsdp=2,cp=2", zero(3)))})
      expectWithin(withinBand(band, layout.name + ", " + model.name, under(layout, options)));
  }
}

// The band is float32's, which the wide type of all of these seeds has.
TEST(Rung4, EightyStepsInFloat16StayWithinTheBandOfFloat32) {
  const auto [one, other, between] = kSeeds[0];
  RunOptions options = longRun(kRunGpt, between);
  options.types = DType::Float32;
  const Band band = bandOf(options, {one, other, between});
  options.types = DType::Float16;
  options.lossScaling = LossScaling{};
  for (const Arrangement& layout :
       {arrangement("dp=4"), arrangement("fsdp=4", zero(3)), arrangement("tp=2"),
        arrangement("pp=2"), arrangement("fsdp=2,tp=2", zero(3), true)})
    expectWithin(withinBand(band, layout.name + ", float16", under(layout, options)));
}

// A gradient that is twice as large does not leave the band: AdamW does not see it, and rung 1
// does. One with other directions leaves it.
TEST(Rung4, WrongGradientsLeaveTheBand) {
  const auto [one, other, between] = kSeeds[0];
  const RunOptions options = longRun(kRunGpt, between);
  const Band band = bandOf(options, {one, other, between});
  const auto within = [&](const Arrangement& layout, Purpose purpose, Change change) {
    const ScopedMutation mutation(Mutation{purpose, change});
    const std::string name = layout.name + (change == Change::Drop ? ", dropped " : ", doubled ");
    const Finding finding = withinBand(band, name + toString(purpose), under(layout, options));
    std::printf("%s\n", finding.describe().c_str());
    return finding.within();
  };
  const Arrangement dp = arrangement("dp=2"), fsdp = arrangement("fsdp=2", zero(3)),
                    rows = arrangement("tp=2", zero(0), true);
  EXPECT_TRUE(within(dp, Purpose::GradientSum, Change::Double));
  EXPECT_FALSE(within(dp, Purpose::Accumulation, Change::Drop));
  EXPECT_FALSE(within(fsdp, Purpose::GradientShardSum, Change::Drop));
  EXPECT_FALSE(within(rows, Purpose::HeadGradientSum, Change::Drop));
  EXPECT_FALSE(within(rows, Purpose::MlpGradientRows, Change::Drop));
}

}  // namespace
}  // namespace tutti::parallel
