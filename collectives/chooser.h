#pragma once

// Choice is an argmin over predicted times and a pure function of request, topology and tuning
// table: ranks that choose differently would hang, so nothing measured while running enters here.

#include <optional>
#include <string>
#include <vector>

#include "collectives/algorithm_file.h"
#include "collectives/algorithms.h"
#include "src/plan/request.h"
#include "src/topology/topology.h"

namespace tutti::collectives {

struct Candidate {
  PlanSpec spec;
  double microseconds = 0;
};

struct Choice {
  PlanSpec spec;  ///< what to run
  std::optional<PlanSpec>
      mapped;  ///< to run instead when every rank's buffers turn out to be mapped
  std::optional<PlanSpec>
      attached;        ///< to run instead when they can be read, if not; never without `mapped`
  std::string reason;  ///< one sentence
  std::vector<Candidate> candidates;  ///< everything considered: staged plans, then mapped, then
                                      ///< attached ones, each fastest first
  /// As predicted for one of the candidates.
  double microsecondsOf(const PlanSpec& candidate) const;
  std::string describe() const;
};

/// Instead of a staged algorithm a preference may name one of these: whether mapped buffers are
/// asked for, or such that can be read, too. A call may have a preference of either kind.
inline constexpr const char* kPreferMapped = "mapped";
inline constexpr const char* kPreferAttached = "attached";
inline constexpr const char* kPreferStaged = "staged";

/// Whether `name`, of a request, a preference or a measurement, is the plan's: its algorithm, as
/// "ring", also with a number of channels, as "ring/2"; or "mapped" or "attached", of all
/// such plans.
bool isNamed(const PlanSpec& spec, const std::string& name);

/// The block size by which a preference knows such a call: a power of two.
uint64_t preferenceBytes(const plan::CollectiveRequest& request);

/// Throws InvalidArgument naming a preference whose collective does not exist, or has no such
/// algorithm.
void requirePreferences(const topology::Tuning& tuning);
/// A tuning file's. Throws InvalidArgument naming the file, and the line of what cannot be.
topology::Tuning readTuning(const std::string& path);

/// A `file` whose plan can serve the call is taken, unless the call names another algorithm.
/// Between hosts an algorithm may be forced with its channels ("ring/2"): on one host all have one.
/// Throws InvalidArgument when `request.algorithm` names no algorithm, or one that does not exist
/// for this collective (Barrier excepted: it takes what there is), and in deterministic mode one
/// whose expression is not the aligned tree.
Choice choose(const plan::CollectiveRequest& request, const topology::Topology& topology,
              const topology::Tuning& tuning, const AlgorithmFile* file = nullptr);

}  // namespace tutti::collectives
