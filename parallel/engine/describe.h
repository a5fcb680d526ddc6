#pragma once

// A training's use of memory and of the network, in lines for people.

#include <string>
#include <utility>
#include <vector>

#include "parallel/engine/engine.h"

namespace tutti::parallel {

/// "512 B", "41.9 MB": decimal units.
std::string bytesText(size_t bytes);
/// What is held, by kind: "weights", ..., "scratch", with their bytes, which add up to the total.
std::vector<std::pair<const char*, size_t>> kindsOf(const TrainingMemory& memory);
/// The same in lines, of kinds that there are.
std::string describe(const TrainingMemory& memory);
/// What collectives of a step there were, with the bytes of their larger sides.
std::string describe(const Collectives& collectives);
/// "1 AllReduce of 4096 bytes", or "nothing": in one line, to the byte.
std::string describe(const CollectiveCounters& counters);

}  // namespace tutti::parallel
