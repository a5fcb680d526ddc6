#pragma once

// What may be had of the machine's memory before it is taken. The kernel answers a request beyond a
// memory cgroup's limit, or beyond the machine, not with an error but by killing a process, so
// Segment asks here first. The answer is an estimate, for others allocate at the same time: it
// turns the sure deaths into errors that say what to do.

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/cgroups.h"

namespace tutti::transports::shm {

/// Whose limit it is where no group has a narrower one.
inline constexpr const char* kWholeMachine = "the machine";

/// The narrowest limit, and what is left of it.
struct MemoryRoom {
  uint64_t bytes;      ///< still to be had
  std::string within;  ///< whose limit: "memory cgroup /job (limit 1073741824 bytes)"
};

/// Nothing when no limit can be read. Understands cgroups of version 1 and 2; what the page cache
/// could give back counts as free.
std::optional<MemoryRoom> memoryRoom(const base::CgroupFiles& files = {});
/// The same of an empty machine: the limits themselves, whatever is used.
std::optional<MemoryRoom> memoryCapacity(const base::CgroupFiles& files = {});

}  // namespace tutti::transports::shm
