#pragma once

// Plans as JSON: what `tutti plan --json FILE` writes, and what a plan from a file is read from.
// The fields are those of plan.h; docs/how-to/write-an-algorithm.md lists them.
//
// Reading believes no size. It checks each field by itself: its kind and range, and that there is
// no other. Whether the plan computes what it promises is the checker's to say.

#include <span>
#include <string>
#include <vector>

#include "src/plan/plan.h"

namespace tutti::plan {

/// All that makes a plan, as a value.
struct WholePlan {
  PlanSpec spec;
  std::vector<Program> programs;  ///< one for each rank
  bool operator==(const WholePlan&) const = default;
};

// What a plan that is read may have at most.
inline constexpr int kMostRanksRead = 256;
inline constexpr int kMostChannelsRead = 64;
inline constexpr int kMostSlotsRead = 2;  ///< every channel has as many
inline constexpr size_t kMostLanesRead = 1024;
inline constexpr size_t kMostPortsRead = 512;  ///< sources, targets, or steps awaited by one step
inline constexpr uint32_t kMostChunksRead = 1 << 16;

/// {"version": 1, "spec": {...}, "programs": [{"lanes": [{"channel": 0, "steps": [...]}]}]}; one
/// line.
std::string toJson(const PlanSpec& spec, std::span<const Program> programs);

/// Throws InvalidArgument, whose message begins with `file`, and names the field by its place
/// ("programs[1].lanes[0].steps[2].fold") and what is wanted there.
WholePlan parsePlan(const std::string& file, const std::string& text);

/// Of programs alone: equal ones have equal hashes, however their JSON is spaced.
uint64_t hashOf(std::span<const Program> programs);

}  // namespace tutti::plan
