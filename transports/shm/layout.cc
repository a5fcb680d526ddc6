// Where things lie in an inbox, and how large the slots are.

#include "transports/shm/layout.h"

#include <algorithm>
#include <bit>

#include "src/base/check.h"
#include "src/base/env.h"
#include "src/base/integers.h"
#include "transports/ring_layout.h"
#include "transports/shm/endpoint.h"
#include "transports/shm/segment.h"

namespace tutti::transports::shm {
namespace {

// Processors fetch lines in pairs, so words of different writers are two lines apart.
constexpr uint64_t kCreditStride = 2 * kLineBytes;
constexpr uint64_t kInboxBudget = uint64_t{8} << 20;
// Four slots of 256 KiB were within 6% of the best at every size from 256 KiB to 64 MiB; fewer and
// smaller ones cost up to three times as much (docs/decisions/0001-interfaces.md).
constexpr uint64_t kLeastSlot = 1024, kLargestSlot = 256 * 1024;
constexpr uint64_t kLeastOfFour = 16 * 1024;

uint64_t ringBytes(const RingLayout& layout) {
  return layout.slotCount * static_cast<uint64_t>(slotStride(layout.slotBytes));
}

}  // namespace

uint64_t blockBytes(const RingLayout& layout) {
  return base::roundUp(static_cast<uint64_t>(layout.channels) * (kCreditStride + ringBytes(layout)),
                       Segment::pageBytes());
}

uint64_t blockOffset(int owner, int peer, const RingLayout& layout) {
  return static_cast<uint64_t>(peer < owner ? peer : peer - 1) * blockBytes(layout);
}

uint64_t inboxBytes(int size, const RingLayout& layout) {
  return static_cast<uint64_t>(size - 1) * blockBytes(layout) +
         base::roundUp(spreadBytes(layout), Segment::pageBytes());
}

size_t spreadBytes(const RingLayout& layout) {
  constexpr size_t kMost = 128 << 10;
  return std::min(std::bit_floor(layout.slotBytes), kMost);
}

std::atomic<uint32_t>* creditIn(std::byte* block, int channel) {
  return reinterpret_cast<std::atomic<uint32_t>*>(block +
                                                  static_cast<uint64_t>(channel) * kCreditStride);
}

// In a line of their own, which is seldom written: one rank looks at it with each message, and the
// other one after each read of mapped memory.
base::SleepWord* sleepWordIn(std::byte* block) {
  static_assert(kCreditStride >= 2 * kLineBytes);
  return reinterpret_cast<base::SleepWord*>(block + kLineBytes);
}

std::atomic<uint32_t>* failedIn(std::byte* block) {
  static_assert(sizeof(base::SleepWord) == sizeof(uint32_t));
  return sleepWordIn(block) + 1;
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
  const uint64_t rings = static_cast<uint64_t>(std::max(size - 1, 1)) * channels;
  const auto fitting = [&](uint32_t slots) {
    return std::bit_floor(std::max<uint64_t>(kInboxBudget / (rings * slots), 1));
  };
  layout.slotCount = fitting(4) >= kLeastOfFour ? 4 : 2;
  layout.slotBytes = std::clamp(fitting(layout.slotCount), kLeastSlot, kLargestSlot);
  if (const size_t asked = base::env().slotBytes)
    layout.slotBytes = base::roundUp(asked, kLineBytes);
  requireLayout(layout);
  return layout;
}

}  // namespace tutti::transports::shm
