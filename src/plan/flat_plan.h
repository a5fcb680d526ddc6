#pragma once

// All ranks' programs with their ends tied: every lane and step has one number, every channel one
// edge that knows its sending and its receiving lane. Tying finds what is wrong without running:
// numbers out of range, steps that make no sense, ends that disagree. Used by the checker and by
// the cost walk.
//
// Of a plan with ranks that are alike the representatives' programs are enough. A message to
// another rank is then one to its representative: that from the rank which the same relabelling
// makes of the sender.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/plan/checker.h"
#include "src/plan/plan.h"
#include "src/plan/symmetry.h"

namespace tutti::plan {

inline constexpr uint32_t kNone = UINT32_MAX;

struct FlatPort {
  Port::Kind kind;
  Buffer buffer;
  int rank;       // whose buffer, or the other end
  uint32_t edge;  // of channels
  uint32_t chunk, chunks;
};

struct FlatStep {
  uint32_t lane;
  uint32_t ports, sources, targets;  // first source; sources and targets lie side by side
  uint32_t after, afterCount;        // in afterSteps
  Fold fold;
  bool completes;
  bool awaited;  // named by some step's `after`
};

struct FlatLane {
  int rank;
  int number;  // within the rank
  uint32_t firstStep, stepCount;
};

struct Edge {
  int from, to, channel;                      // relabelled so that `to` is a representative
  uint32_t sender = kNone, receiver = kNone;  // lanes
};

struct FlatPlan {
  std::vector<FlatLane> lanes;
  std::vector<FlatStep> steps;
  std::vector<FlatPort> ports;
  std::vector<uint32_t> afterSteps;
  std::vector<Edge> edges;
  std::vector<uint32_t> firstLane;  // of each program, and one more

  std::span<const FlatPort> sources(const FlatStep& s) const {
    return {ports.data() + s.ports, s.sources};
  }
  std::span<const FlatPort> targets(const FlatStep& s) const {
    return {ports.data() + s.ports + s.sources, s.targets};
  }
};

/// Ties the programs into `flat`, or says what is wrong.
std::optional<CheckError> flatten(const PlanSpec& spec, const std::vector<Program>& programs,
                                  FlatPlan& flat);
/// The same of `symmetry`'s representatives alone. That relabelled messages carry the same number
/// of chunks is checked, that they carry the same chunks cannot be.
std::optional<CheckError> flatten(const PlanSpec& spec, const Symmetry& symmetry,
                                  const std::vector<Program>& programs, FlatPlan& flat);

/// An error at a step, its message beginning with "rank 1, lane 0, step 2 (...)".
CheckError errorAt(const Program& program, int rank, int lane, int step, const std::string& what);

}  // namespace tutti::plan
