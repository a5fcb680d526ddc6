// How layers are dealt out to the stages of a pipeline.

#include "parallel/engine/stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

namespace tutti::parallel {
namespace {

/// Layers of each stage.
std::vector<int> layersOf(const std::vector<UnitRange>& stages) {
  std::vector<int> layers;
  for (const UnitRange& stage : stages) layers.push_back(stage.end - stage.begin);
  --layers.front();
  --layers.back();
  return layers;
}

std::string refusal(const std::vector<int64_t>& costs, int stages, const std::vector<int>& layers) {
  try {
    cutIntoStages(costs, stages, layers);
    return "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    return error.what();
  }
}

TEST(Stages, OfOneAreTheWholeModel) {
  EXPECT_EQ(cutIntoStages({1}, 1, {}), (std::vector<UnitRange>{{0, 1}}));
  EXPECT_EQ(cutIntoStages({0, 5, 5, 3}, 1, {}), (std::vector<UnitRange>{{0, 4}}));
}

TEST(Stages, HaveTheFirstUnitAtTheFirstAndTheLastAtTheLast) {
  EXPECT_EQ(cutIntoStages({0, 5, 5, 5, 5, 3}, 2, {3, 1}), (std::vector<UnitRange>{{0, 4}, {4, 6}}));
  EXPECT_EQ(cutIntoStages({0, 5, 5, 5, 5, 3}, 3, {1, 2, 1}),
            (std::vector<UnitRange>{{0, 2}, {2, 4}, {4, 6}}));
}

TEST(Stages, TakeEquallyLong) {
  const std::vector<int64_t> even{0, 4, 4, 4, 4, 4, 4, 4, 4, 0};
  EXPECT_EQ(layersOf(cutIntoStages(even, 4, {})), (std::vector<int>{2, 2, 2, 2}));
  // A head as long as two layers.
  const std::vector<int64_t> head{0, 4, 4, 4, 4, 4, 4, 8};
  EXPECT_EQ(layersOf(cutIntoStages(head, 2, {})), (std::vector<int>{4, 2}));
}

/// The longest stage of the best of all ways.
int64_t leastMost(const std::vector<int64_t>& costs, int stages) {
  const int layers = static_cast<int>(costs.size()) - 2;
  int64_t best = std::accumulate(costs.begin(), costs.end(), int64_t{0});
  std::vector<bool> ends(static_cast<size_t>(layers) - 1);
  std::fill(ends.end() - (stages - 1), ends.end(), true);
  do {
    int64_t most = 0, stage = costs.front();
    for (int layer = 0; layer < layers; ++layer) {
      stage += costs[static_cast<size_t>(layer) + 1];
      if (layer + 1 == layers) stage += costs.back();
      most = std::max(most, stage);
      if (layer + 1 < layers && ends[static_cast<size_t>(layer)]) stage = 0;
    }
    best = std::min(best, most);
  } while (std::next_permutation(ends.begin(), ends.end()));
  return best;
}

TEST(Stages, AreAsEvenAsAnyWayMakesThem) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const int layers = 1 + static_cast<int>(random() % 9);
    const int stages = 1 + static_cast<int>(random() % static_cast<unsigned>(layers));
    std::vector<int64_t> costs;
    for (int i = 0; i < layers + 2; ++i) costs.push_back(static_cast<int64_t>(random() % 20));
    int64_t most = 0;
    for (const UnitRange& stage : cutIntoStages(costs, stages, {}))
      most = std::max(most, std::accumulate(costs.begin() + stage.begin, costs.begin() + stage.end,
                                            int64_t{0}));
    EXPECT_EQ(most, leastMost(costs, stages)) << "trial " << trial;
  }
}

TEST(Stages, ThatCannotBeAreRefused) {
  const std::vector<int64_t> costs{0, 5, 5, 5, 3};
  EXPECT_EQ(refusal(costs, 4, {}),
            "a model of 3 layers has none for some of 4 stages of a pipeline: at most 3 would do");
  EXPECT_EQ(refusal(costs, 2, {3}), "layers of 1 stages are given, and the pipeline has 2");
  EXPECT_EQ(refusal(costs, 2, {3, 0}), "a stage of a pipeline has at least one layer, not 0");
  EXPECT_EQ(refusal(costs, 2, {1, 1}), "the stages have 2 layers, and the model has 3");
}

}  // namespace
}  // namespace tutti::parallel
