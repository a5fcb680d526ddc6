#pragma once

// How long a plan takes on a cluster of as many ranks as one likes.
//
// Where an algorithm says that ranks are alike (AlgorithmInfo::symmetry), the walk is that of their
// representatives: those of one host, or of one pod where pods share links, because ranks that
// share links are not alike. A message to any other rank is then one to its representative, and
// comes when that rank's message comes here. As links serve messages that come at the same time in
// an order that is the same for all who are alike, this is the walk of all ranks, and not an
// approximation: tests compare the two.
//
// Plans without such a symmetry are walked in full as long as they have no more operands than
// memory and patience allow. That is enough for a hundred thousand ranks in trees, where a rank has
// few steps.

#include <optional>
#include <string>

#include "collectives/algorithms.h"
#include "collectives/walk.h"
#include "src/topology/cluster.h"

namespace tutti::collectives {

/// How much is simulated at most: some five GiB, and a minute or two.
struct SimulationLimits {
  uint64_t operands = 30'000'000;  ///< ports of all steps of the programs that are built
  uint64_t events = 40'000'000;    ///< steps, and messages over links, in all rounds walked
  /// Where a plan depends on the hosts and no two ranks are alike: each program is built from the
  /// list of all hosts, and all together in a time that grows with the square.
  size_t ranksBuiltFromHosts = 20'000;
};

/// One plan on one cluster, for any size. Throws Internal when the programs do not fit together,
/// which an algorithm's wrong symmetry brings about.
class Simulation {
 public:
  enum class Walked { Classes, AllRanks };
  Simulation(const AlgorithmInfo& info, const PlanSpec& spec, const topology::Cluster& cluster,
             Walked walked = Walked::Classes, const SimulationLimits& limits = {});

  /// Why nothing can be simulated, or not for blocks of `blockBytes`; empty where it can.
  std::string refusal(uint64_t blockBytes) const;
  /// How many ranks are walked for all; 0 where nothing can be simulated.
  size_t ranksWalked() const { return ranksWalked_; }
  /// For blocks of `blockBytes`, where they are not refused.
  double microseconds(uint64_t blockBytes) const;

 private:
  std::string build(const AlgorithmInfo& info, const plan::Symmetry& symmetry);
  plan::PlanShape shapeOf(uint64_t blockBytes) const;

  const PlanSpec spec_;
  const topology::Cluster cluster_;
  const SimulationLimits limits_;
  plan::FlatPlan flat_;
  size_t ranksWalked_ = 0;
  std::string refusal_;
};

/// The spec of `info`'s plan for this many ranks of the cluster, or nothing where there is none.
std::optional<PlanSpec> specOn(const topology::Cluster& cluster, const AlgorithmInfo& info,
                               Collective collective, int ranks, int channels);

}  // namespace tutti::collectives
