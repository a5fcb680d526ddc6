#pragma once

// The state of an mbarrier in its 8 bytes of shared memory, for those who complete bytes on it.

#include "tests/emulation/shared_memory.h"

namespace tutti::emulation {

/// Adds `bytes` that have landed to the barrier at `address`, seen from `block`. For
/// ThreadSanitizer the caller acts as the proxy that has written them.
void completeBytes(uint32_t address, uint32_t bytes, Block& block, Site site);

/// Fails unless a barrier was initialised there.
void requireBarrier(uint32_t address, Block& block, Site site);

}  // namespace tutti::emulation
