#pragma once

// All ranks' programs with their ends tied: every lane and step has one number, every channel one
// edge that knows its sending and its receiving lane. Tying finds what is wrong without running:
// numbers out of range, steps that make no sense, ends that disagree. Used by the checker and by
// the cost walk.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/plan/checker.h"
#include "src/plan/plan.h"

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
  int from, to, channel;
  uint32_t sender = kNone, receiver = kNone;  // lanes
};

struct FlatPlan {
  std::vector<FlatLane> lanes;
  std::vector<FlatStep> steps;
  std::vector<FlatPort> ports;
  std::vector<uint32_t> afterSteps;
  std::vector<Edge> edges;
  std::vector<uint32_t> firstLane;  // of each rank, and one more

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

/// An error at a step, its message beginning with "rank 1, lane 0, step 2 (...)".
CheckError errorAt(const std::vector<Program>& programs, int rank, int lane, int step,
                   const std::string& what);

}  // namespace tutti::plan
