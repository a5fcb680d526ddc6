// Where things lie in an inbox, and how large the slots are.

#include "transports/shm/layout.h"

#include <algorithm>
#include <bit>

#include "src/base/check.h"
#include "src/base/env.h"
#include "transports/shm/endpoint.h"
#include "transports/shm/segment.h"

namespace tutti::transports::shm {
namespace {

// Processors fetch lines in pairs, so words of different writers are two lines apart.
constexpr uint64_t kCreditStride = 2 * kLineBytes;
constexpr uint64_t kInboxBudget = uint64_t{8} << 20;
constexpr uint64_t kLeastSlot = 1024, kLargestSlot = 256 * 1024;
// SlotHeader::bytes has 32 bits.
constexpr uint64_t kSlotLimit = uint64_t{1} << 30;

uint64_t roundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

uint64_t ringBytes(const RingLayout& layout) {
  return layout.slotCount * static_cast<uint64_t>(slotStride(layout.slotBytes));
}

}  // namespace

void requireLayout(const RingLayout& layout) {
  TUTTI_REQUIRE(layout.channels >= 1 && layout.channels <= kMaxChannels, "rings for ",
                layout.channels, " channels: 1 to ", kMaxChannels, " are possible");
  TUTTI_REQUIRE(std::has_single_bit(layout.slotCount) && layout.slotCount >= 2 &&
                    layout.slotCount <= kMaxSlots,
                layout.slotCount, " slots: a ring has a power of two from 2 to ", kMaxSlots);
  TUTTI_REQUIRE(layout.slotBytes >= kLineBytes && layout.slotBytes % kLineBytes == 0 &&
                    layout.slotBytes <= kSlotLimit,
                "slots of ", layout.slotBytes, " bytes: a multiple of ", kLineBytes, " up to ",
                kSlotLimit, " is possible");
}

uint64_t blockBytes(const RingLayout& layout) {
  return roundUp(static_cast<uint64_t>(layout.channels) * (kCreditStride + ringBytes(layout)),
                 Segment::pageBytes());
}

uint64_t blockOffset(int owner, int peer, const RingLayout& layout) {
  return static_cast<uint64_t>(peer < owner ? peer : peer - 1) * blockBytes(layout);
}

uint64_t inboxBytes(int size, const RingLayout& layout) {
  return static_cast<uint64_t>(size - 1) * blockBytes(layout);
}

std::atomic<uint32_t>* creditIn(std::byte* block, int channel) {
  return reinterpret_cast<std::atomic<uint32_t>*>(block +
                                                  static_cast<uint64_t>(channel) * kCreditStride);
}

std::byte* slotsIn(std::byte* block, int channel, const RingLayout& layout) {
  return block + static_cast<uint64_t>(layout.channels) * kCreditStride +
         static_cast<uint64_t>(channel) * ringBytes(layout);
}

RingLayout chooseLayout(int size, int channels) {
  TUTTI_REQUIRE(size >= 1 && channels >= 1, "rings for ", size, " ranks and ", channels,
                " channels");
  RingLayout layout;
  layout.channels = channels;
  layout.slotCount = size <= 16 ? 4 : 2;
  const uint64_t rings = static_cast<uint64_t>(std::max(size - 1, 1)) * channels;
  const uint64_t fitting = kInboxBudget / (rings * layout.slotCount);
  layout.slotBytes =
      std::clamp(std::bit_floor(std::max<uint64_t>(fitting, 1)), kLeastSlot, kLargestSlot);
  if (const size_t asked = base::env().slotBytes) layout.slotBytes = roundUp(asked, kLineBytes);
  requireLayout(layout);
  return layout;
}

}  // namespace tutti::transports::shm
