#include "parallel/engine/stages.h"

#include <algorithm>
#include <numeric>

namespace tutti::parallel {

namespace {

/// The first stages as long as `most` allows, but leaving a layer for each of the others; nothing
/// when the last one is left with more.
std::vector<int> layersWithin(const std::vector<int64_t>& costs, int stages, int64_t most) {
  std::vector<int> layers;
  const int all = static_cast<int>(costs.size()) - 2;
  int next = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const bool last = stage + 1 == stages;
    int64_t cost = (stage == 0 ? costs.front() : 0) + (last ? costs.back() : 0);
    int taken = 0;
    while (next < all - (stages - 1 - stage) &&
           (taken == 0 || last || cost + costs[static_cast<size_t>(next) + 1] <= most)) {
      cost += costs[static_cast<size_t>(++next)];
      ++taken;
    }
    if (cost > most) return {};
    layers.push_back(taken);
  }
  return layers;
}

/// With the least cost of the stage that costs most.
std::vector<int> balancedLayers(const std::vector<int64_t>& costs, int stages) {
  int64_t most = std::accumulate(costs.begin(), costs.end(), int64_t{0}), least = 0;
  while (least < most) {
    const int64_t middle = least + (most - least) / 2;
    if (layersWithin(costs, stages, middle).empty())
      least = middle + 1;
    else
      most = middle;
  }
  return layersWithin(costs, stages, most);
}

}  // namespace

std::vector<UnitRange> cutIntoStages(const std::vector<int64_t>& unitCosts, int stages,
                                     const std::vector<int>& layers) {
  const int units = static_cast<int>(unitCosts.size()), all = units - 2;
  if (stages == 1 && layers.empty()) return {{0, units}};
  require(all >= stages, "a model of ", std::max(all, 0), " layers has none for some of ", stages,
          " stages of a pipeline: at most ", std::max(all, 1), " would do");
  require(layers.empty() || static_cast<int>(layers.size()) == stages, "layers of ", layers.size(),
          " stages are given, and the pipeline has ", stages);
  for (const int count : layers)
    require(count >= 1, "a stage of a pipeline has at least one layer, not ", count);
  const std::vector<int> counts = layers.empty() ? balancedLayers(unitCosts, stages) : layers;
  const int sum = std::accumulate(counts.begin(), counts.end(), 0);
  require(sum == all, "the stages have ", sum, " layers, and the model has ", all);
  std::vector<UnitRange> ranges;
  UnitId next = 0;
  for (size_t stage = 0; stage < counts.size(); ++stage) {
    const UnitId begin = next;
    next += counts[stage] + (stage == 0 ? 1 : 0) + (stage + 1 == counts.size() ? 1 : 0);
    ranges.push_back({begin, next});
  }
  return ranges;
}

}  // namespace tutti::parallel
