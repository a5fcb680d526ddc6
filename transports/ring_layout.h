#pragma once

// Checking and naming a RingLayout, the same for every transport.

#include <bit>
#include <string>

#include "src/base/check.h"
#include "transports/connection.h"

namespace tutti::transports {

inline constexpr int kMaxChannels = 64;
inline constexpr uint32_t kMaxSlots = 1 << 16;
/// SlotHeader::bytes has 32 bits.
inline constexpr size_t kMaxSlotBytes = size_t{1} << 30;

/// Throws InvalidArgument naming what is impossible.
inline void requireLayout(const RingLayout& layout) {
  TUTTI_REQUIRE(layout.channels >= 1 && layout.channels <= kMaxChannels, "rings for ",
                layout.channels, " channels: 1 to ", kMaxChannels, " are possible");
  TUTTI_REQUIRE(std::has_single_bit(layout.slotCount) && layout.slotCount >= 2 &&
                    layout.slotCount <= kMaxSlots,
                layout.slotCount, " slots: a ring has a power of two from 2 to ", kMaxSlots);
  TUTTI_REQUIRE(layout.slotBytes >= kLineBytes && layout.slotBytes % kLineBytes == 0 &&
                    layout.slotBytes <= kMaxSlotBytes,
                "slots of ", layout.slotBytes, " bytes: a multiple of ", kLineBytes, " up to ",
                kMaxSlotBytes, " is possible");
}

/// Of one ring.
constexpr uint64_t slotsBytes(const RingLayout& layout) {
  return slotStride(layout.slotBytes) * layout.slotCount;
}

/// "4 slots of 65536 bytes in 1 channels"
inline std::string describe(const RingLayout& layout) {
  return base::message(layout.slotCount, " slots of ", layout.slotBytes, " bytes in ",
                       layout.channels, " channels");
}

/// Throws Refused when the two ends of a connection differ.
inline void requireSameLayout(int peer, const RingLayout& theirs, int rank,
                              const RingLayout& ours) {
  if (theirs != ours)
    base::fail(ErrorCode::Refused, "ranks disagree about their rings (TUTTI_SLOT_BYTES?): rank ",
               peer, " has ", describe(theirs), ", rank ", rank, " has ", describe(ours));
}

}  // namespace tutti::transports
