#pragma once

// Every plan of the registry for a number of ranks, for tests that prove or break them all.

#include <vector>

#include "collectives/algorithms.h"

namespace tutti::collectives::test {

/// The roots to try: all where tests are to prove all, beyond that the ends and a few between.
inline std::vector<int> rootsOf(Collective collective, int ranks) {
  if (!plan::hasRoot(collective)) return {0};
  std::vector<int> roots;
  if (ranks <= kRanksWithRootProvedByTests) {
    for (int root = 0; root < ranks; ++root) roots.push_back(root);
    return roots;
  }
  return {0, 1, ranks / 3, ranks / 2, ranks - 2, ranks - 1};
}

inline std::vector<PlanSpec> specsOf(const AlgorithmInfo& info, int ranks, int channels) {
  std::vector<PlanSpec> specs;
  for (int c = 0; c < plan::kCollectiveCount; ++c)
    for (Protocol protocol : {Protocol::Simple, Protocol::Mapped})
      for (int root : rootsOf(static_cast<Collective>(c), ranks))
        if (auto spec = info.spec({static_cast<Collective>(c), protocol, ranks, root, channels}))
          specs.push_back(*spec);
  return specs;
}

inline std::vector<Program> programsOf(const AlgorithmInfo& info, const PlanSpec& spec) {
  std::vector<Program> programs;
  for (int rank = 0; rank < spec.ranks; ++rank) programs.push_back(info.build(spec, rank));
  return programs;
}

}  // namespace tutti::collectives::test
