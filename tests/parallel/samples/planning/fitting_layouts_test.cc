// Which layouts suit a job and a model is what the checks of a training say, and a layout that does
// not is refused with the nearest that do.

#include "parallel/samples/planning/fitting_layouts.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "parallel/samples/train_gpt/train_options.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel {
namespace {

std::vector<std::string> nearest(const LayoutFlags& wanted, const LayoutNeeds& needs, int most) {
  std::vector<std::string> texts;
  for (const LayoutFlags& layout : nearestFitting(wanted, needs, most))
    texts.push_back(layout.describe());
  return texts;
}
using Texts = std::vector<std::string>;

constexpr LayoutNeeds kFourLayers{.ranks = 8, .heads = 4, .kvHeads = 4, .stages = 4, .experts = 6};

TEST(FittingLayouts, AreNearest) {
  EXPECT_EQ(nearest({.tp = 3}, kFourLayers, 3),
            (Texts{"--dp 2 --tp 4", "--dp 4 --tp 2", "--dp 8"}));
  EXPECT_EQ(nearest({.pp = 8}, kFourLayers, 2), (Texts{"--dp 2 --pp 4", "--dp 4 --pp 2"}));
  EXPECT_EQ(nearest({.ep = 4}, kFourLayers, 1), (Texts{"--dp 4 --ep 2"}));
  LayoutNeeds dense = kFourLayers;
  dense.experts = 0;
  EXPECT_EQ(nearest({.tp = 2, .ep = 4}, dense, 2), (Texts{"--dp 4 --tp 2", "--dp 8"}));
  EXPECT_EQ(nearest({.dp = 3}, kFourLayers, 2), (Texts{"--dp 4 --fsdp 2", "--dp 2 --fsdp 4"}));
  EXPECT_EQ(nearest({.dp = 2, .fsdp = 2, .pp = 4}, kFourLayers, 3),
            (Texts{"--fsdp 2 --pp 4", "--dp 2 --pp 4", "--dp 2 --fsdp 2 --pp 2"}));
  // Any number of ranks: one axis changes.
  LayoutNeeds any = kFourLayers;
  any.ranks = 0;
  EXPECT_EQ(nearest({.dp = 2, .tp = 3}, any, 2), (Texts{"--dp 2 --tp 4", "--dp 2 --tp 2"}));
  EXPECT_EQ(nearest({.ep = 4}, any, 2), (Texts{"--ep 3", "--ep 6"}));
  // Where that is not enough, each axis the nearest that suits the model.
  EXPECT_EQ(nearest({.tp = 3, .pp = 5, .ep = 4}, any, 3), (Texts{"--ep 3 --pp 4 --tp 4"}));
  // Keys and values that ranks share.
  EXPECT_EQ(nearest({.tp = 3}, {.ranks = 6, .heads = 12, .kvHeads = 2, .stages = 2}, 2),
            (Texts{"--dp 3 --tp 2", "--tp 6"}));
}

TEST(FittingLayouts, FitAndAreAsManyAsAskedFor) {
  for (int ranks = 1; ranks <= 24; ++ranks)
    for (int tp = 1; tp <= 6; ++tp)
      for (int pp = 1; pp <= 6; ++pp) {
        LayoutNeeds needs = kFourLayers;
        needs.ranks = ranks;
        const auto found = nearestFitting({.tp = tp, .pp = pp}, needs, 3);
        ASSERT_FALSE(found.empty());
        EXPECT_LE(found.size(), 3u);
        for (const LayoutFlags& layout : found) EXPECT_TRUE(fits(layout, needs));
      }
}

TrainOptions optionsOf(const LayoutFlags& layout, int ranks, const LayoutNeeds& needs) {
  TrainOptions options;
  options.text = "x";
  options.ranks = ranks;
  options.dp = layout.dp;
  options.fsdp = layout.fsdp;
  options.tp = layout.tp;
  options.pp = layout.pp;
  options.cp = layout.cp;
  options.ep = layout.ep;
  options.model.experts.count = needs.experts;
  if (needs.exchangesHeads) options.model.contextAttention = ContextAttention::Heads;
  options.model.layers = needs.stages;
  options.model.heads = needs.heads;
  options.model.width = 4 * needs.heads;
  return options;
}

// fits() is what a training then takes.
TEST(FittingLayouts, AreThoseThatATrainingTakes) {
  LayoutNeeds needs = kFourLayers;
  int taken = 0, refused = 0;
  for (needs.ranks = 1; needs.ranks <= 12; ++needs.ranks)
    for (int dp : {0, 1, 2, 3})
      for (int fsdp : {0, 2})
        for (int tp : {1, 2, 3, 4})
          for (int pp : {1, 2, 5})
            for (const auto& [cp, ep] :
                 {std::pair{1, 1}, {2, 1}, {1, 2}, {4, 1}, {1, 4}, {2, 2}, {2, 4}}) {
              const LayoutFlags layout{
                  .dp = dp, .fsdp = fsdp, .tp = tp, .pp = pp, .cp = cp, .ep = ep};
              needs.exchangesHeads = dp == 1;
              needs.experts = fsdp == 2 ? 0 : 6;
              std::string said = "taken";
              try {
                checkLayout(optionsOf(layout, needs.ranks, needs), needs.ranks);
              } catch (const Error& error) {
                said = error.what();
                EXPECT_EQ(error.code(), ErrorCode::InvalidArgument) << said;
                EXPECT_NE(said.find("; nearest to it are "), said.npos) << said;
              }
              EXPECT_EQ(fits(layout, needs), said == "taken")
                  << layout.describe() << " of " << needs.ranks << ": " << said;
              ++(said == "taken" ? taken : refused);
            }
  EXPECT_GT(taken, 100);
  EXPECT_GT(refused, 1000);
}

// A schedule may cut a rank's layers into several stages without being asked.
TEST(FittingLayouts, KnowTheStagesOfSchedules) {
  for (const std::string schedule : {"1f1b", "interleaved", "zb-v"}) {
    TrainOptions options = optionsOf({.pp = 6}, 0, kFourLayers);
    options.schedule = schedule;
    const std::string half = schedule == "1f1b" ? "; nearest to it are --pp 4, or --pp 3, or --pp 2"
                                                : "; nearest to it are --pp 2, or one rank";
    try {
      checkLayout(options, 0);
      ADD_FAILURE() << schedule;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).ends_with(half)) << error.what();
    }
    options.pp = 2;
    EXPECT_NO_THROW(checkLayout(options, 0)) << schedule;
  }
}

TEST(FittingLayouts, AreNotNamedWhereSomethingElseIsWrong) {
  TrainOptions options = optionsOf({.tp = 2, .pp = 2}, 4, kFourLayers);
  options.stages = {1, 1};
  try {
    checkLayout(options, 4);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the stages have 2 layers, and the model has 4");
  }
}

}  // namespace
}  // namespace tutti::parallel
