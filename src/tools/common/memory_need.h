#pragma once

// Whether there is memory for what all ranks of a host are about to take. Each may find enough for
// itself where there is not enough for all; then the kernel ends ranks, of whichever program.

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include <tutti/communicator.h>

namespace tutti::tools {

/// What one rank wants, and the narrowest limit that it is under.
struct MemoryNeed {
  uint64_t bytes = 0;
  uint64_t left = UINT64_MAX;  ///< bytes, under that limit; the largest number where none is known
  std::string limit;           ///< whose it is, in words: "the machine"
  std::string sharers;         ///< equal for the ranks that the limit holds for together
};

/// The latter, for a rank of so numbered a host on the machine of `bootId`: the machine's memory is
/// that of all its containers, each of which may call its own cgroup by the same name.
std::string sharersOf(const std::string& bootId, int host, const std::string& limit);

/// Throws OutOfMemory naming `purpose`, what the ranks under one limit need together and what is
/// left, where that is not enough. A small part is left to others.
void requireRoom(std::span<const MemoryNeed> ranks, const std::string& purpose);

/// Collective, before anything of it is taken: the same of this machine, for `bytes` on this rank.
/// All ranks throw, or none.
void requireMemory(Communicator& c, uint64_t bytes, const std::string& purpose);

/// Collective: calls `take`, which takes memory, or whatever else may be lacking on one rank alone.
/// Where it throws on one, all throw that, with that rank and its process and `purpose` before it;
/// so none waits for a rank that has given up.
void takeOnAll(Communicator& c, const std::string& purpose, const std::function<void()>& take);

}  // namespace tutti::tools
