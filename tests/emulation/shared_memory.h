#pragma once

// Shared memory: an arena of 256 KiB per block, in which a byte's offset is its 32-bit shared
// address. The first KiB is nobody's, as on sm_90; then dynamic shared memory, then static
// variables as they are first used, with room between for AddressSanitizer. Addresses of mapa()
// have the rank in the cluster plus one in their top byte.

#include "tests/emulation/state.h"

namespace tutti::emulation {

constexpr uint32_t kArenaBytes = 256 << 10;
constexpr uint32_t kArenaStart = 1024;

/// Gives the block an arena, of `pool` if it has one, filled with NaN.
void makeSharedMemory(Block& block, size_t dynamicBytes, std::vector<char*>& pool);
void endSharedMemory(Block& block, std::vector<char*>& pool);

/// The bytes at a shared address, as `block` or a block of its cluster sees it; fails where they
/// are not all in use or not at a multiple of `alignment`.
char* sharedBytes(uint32_t address, uint32_t bytes, uint32_t alignment, Block& block, Site site);

/// The block to which a shared address leads, and the address there.
Block& blockOf(uint32_t address, Block& block, Site site);
inline uint32_t offsetOf(uint32_t address) { return address & 0xffffff; }

}  // namespace tutti::emulation
