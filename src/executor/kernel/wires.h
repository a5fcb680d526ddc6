#pragma once

// By which wire the messages of a call go.

#include <cstdint>
#include <span>

#include "transports/p2p/links.h"

namespace tutti::executor::kernel {

/// Up to these bytes of all blocks, latency is what counts, and LL or LL128 saves a round trip to
/// memory; beyond, they cost more bytes than that is worth. Not measured.
inline constexpr uint64_t kMostBytesByLL = 32 << 10;
inline constexpr uint64_t kMostBytesByLL128 = 1 << 20;

/// `keepsLines`: a warp's line arrives whole at every peer, as LL128 needs.
transports::p2p::Wire wireFor(uint64_t bytes, bool isMapped, bool keepsLines);

/// Whether stores of a line between these devices arrive whole: inside one device, and over NVLink,
/// which is told from PCIe by its native atomic operations.
bool linesArriveWhole(std::span<const int> devices);

}  // namespace tutti::executor::kernel
