#pragma once

// GpuChoices: the plans that are chosen for a communicator's calls on its GPU, with this rank's
// programs in the GPU's memory. GpuBackend owns it; only the issuing thread calls it, and no lock
// protects it.

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "src/communicator/gpu/gpu_rank.h"
#include "src/communicator/links.h"
#include "src/communicator/membership.h"
#include "src/communicator/request.h"
#include "src/communicator/settings.h"
#include "src/plan/plan.h"

namespace tutti::communicator {

/// A choice with this rank's program on the GPU.
struct GpuChoice {
  plan::PlanSpec spec;
  executor::PreparedPlan* plan = nullptr;
  uint64_t hash = 0;
  uint32_t slices = 1;
};

class GpuChoices {
 public:
  using Plans =
      std::unordered_map<uint64_t, std::unique_ptr<executor::PreparedPlan>>;  // by spec's hash

  GpuChoices(const Membership& who, const Settings& settings, const RankLinks& links)
      : who_(who), settings_(settings), links_(links) {}

  /// Stays where it is.
  const GpuChoice& choose(const CallFacts& facts, const CallWishes& wishes, GpuRank& rank);
  /// When nothing is chosen any more.
  Plans takePlans() { return std::move(plans_); }

 private:
  const Membership& who_;
  const Settings& settings_;
  const RankLinks& links_;
  Plans plans_;
  WishNumbers wishNumbers_;
  std::unordered_map<uint64_t, GpuChoice> choices_;
};

}  // namespace tutti::communicator
