#pragma once

// Every plan of the registry for a number of ranks, for tests that prove or break them all.

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "collectives/algorithms.h"
#include "src/base/integers.h"
#include "src/plan/hosts.h"

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

/// The hosts of all ranks, in a plan's form, by several rules.
using Placements = std::vector<std::vector<int>>;
using HostOf = std::function<int(int rank)>;

inline Placements placementsBy(const std::vector<HostOf>& rules, int ranks) {
  Placements placements{{}};  // all on one host
  for (const HostOf& rule : rules) {
    std::vector<int> hostOf;
    for (int rank = 0; rank < ranks; ++rank) hostOf.push_back(rule(rank));
    hostOf = plan::hostsInOrder(hostOf);
    if (std::ranges::find(placements, hostOf) == placements.end()) placements.push_back(hostOf);
  }
  return placements;
}

/// One host; two equal ones; three whose ranks take turns.
inline Placements fewPlacements(int ranks) {
  return placementsBy({[=](int r) { return 2 * r / ranks; }, [](int r) { return r % 3; }}, ranks);
}

/// Those, and: neighbours on three hosts, and on eight; in pairs; the first or the last rank alone;
/// 3, 1 and 4 to a host; taking turns on two; without any order.
inline Placements manyPlacements(int ranks) {
  static constexpr std::array kThreeOneFour{0, 0, 0, 1, 2, 2, 2, 2};
  return placementsBy({[=](int r) { return 2 * r / ranks; }, [](int r) { return r % 3; },
                       [=](int r) { return 3 * r / ranks; }, [=](int r) { return 8 * r / ranks; },
                       [](int r) { return r / 2; }, [](int r) { return r > 0; },
                       [=](int r) { return r == ranks - 1; },
                       [](int r) { return r / 8 * 3 + kThreeOneFour[static_cast<size_t>(r % 8)]; },
                       [](int r) { return r % 2; },
                       [](int r) { return static_cast<int>(base::mixBits(r * 9973U + 5) % 5); }},
                      ranks);
}

/// The plans for these placements; what does not depend on hosts counts once.
inline std::vector<PlanSpec> specsOf(const AlgorithmInfo& info, int ranks, int channels,
                                     const Placements& placements) {
  std::vector<PlanSpec> specs;
  for (int c = 0; c < plan::kCollectiveCount; ++c)
    for (Protocol protocol : {Protocol::Simple, Protocol::Mapped, Protocol::Attached})
      for (int root : rootsOf(static_cast<Collective>(c), ranks))
        for (const std::vector<int>& hosts : placements)
          if (auto spec =
                  info.spec({static_cast<Collective>(c), protocol, ranks, root, channels, hosts});
              spec && spec->hosts == hosts)
            specs.push_back(*spec);
  return specs;
}
inline std::vector<PlanSpec> specsOf(const AlgorithmInfo& info, int ranks, int channels) {
  return specsOf(info, ranks, channels, fewPlacements(ranks));
}

inline std::vector<Program> programsOf(const AlgorithmInfo& info, const PlanSpec& spec) {
  std::vector<Program> programs;
  for (int rank = 0; rank < spec.ranks; ++rank) programs.push_back(info.build(spec, rank));
  return programs;
}

}  // namespace tutti::collectives::test
