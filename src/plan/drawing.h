#pragma once

// Pictures of a plan: what moves between ranks in one round, by the number of messages that each
// had to wait for. For people and documents; nothing that runs uses it.

#include <span>
#include <string>
#include <vector>

#include "src/plan/plan.h"

namespace tutti::plan {

/// Something that moves from rank to rank.
struct Movement {
  enum class Kind : uint8_t { Mapped, Message, Signal } kind = Kind::Message;
  int depth = 1;  ///< messages on the longest chain that ends with this one
  int from = 0;
  int to = 0;
  int channel = 0;
  uint32_t chunk = 0, chunks = 0;
  bool operator==(const Movement&) const = default;
};

/// Ordered by depth, then by kind and ranks. The programs must be ones that the checker admits.
std::vector<Movement> movementsOf(const PlanSpec& spec, std::span<const Program> programs);

/// In characters: a column for each rank, a line for each movement.
std::string drawText(const PlanSpec& spec, std::span<const Program> programs);
/// As an SVG document: a column for each rank, an arrow for each movement, time downwards.
std::string drawSvg(const PlanSpec& spec, std::span<const Program> programs);

}  // namespace tutti::plan
