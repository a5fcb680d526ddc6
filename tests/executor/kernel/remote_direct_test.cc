// Direct messages between a kernel's slots and a transport's ring: the payloads stay where they
// are. The test is the kernel on one side and the transport on the other.

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "tests/emulation/runtime/device.h"
#include "tests/executor/kernel/link_kernel.h"
#include "transports/ring_storage.h"

namespace tutti::tests {
namespace {

using executor::kernel::Arrivals;
using executor::kernel::RemoteReceiver;
using executor::kernel::RemoteSender;
using transports::ReceiveRing;
using transports::RingStorage;
using transports::SendRing;
using transports::SlotHeader;

/// Numbers of kernel and ring are in step modulo the slots.
constexpr uint32_t kDirectBytes = 200, kDirectFirst = UINT32_MAX - 5, kDirectRingFirst = 2;

class DirectSending : public testing::Test {
 protected:
  Kernel kernel_{kDirectFirst, kSlotBytes, kDirectBytes};
  RingStorage storage_{ringLayout(), kDirectRingFirst};
  SendRing ring_{storage_.memory(), kDirectRingFirst};
  RemoteSender sender_{kernel_.link, kernel_.layout, ring_};
};

TEST_F(DirectSending, SendsPayloadsWithoutCopies) {
  for (uint32_t i = 1; i <= 3 * kSlots; ++i) {
    const uint32_t reach = std::array{199U, 200U, 512U}[i % 3];
    kernel_.publish(kDirectFirst + i, reach);
    ASSERT_TRUE(sender_.move());
    unsigned char* const slots =
        reach >= kDirectBytes ? kernel_.link.directSendSlots : kernel_.link.sendSlots;
    const auto* const lies = Kernel::payload(kernel_.slot(slots, kDirectFirst + i));
    EXPECT_EQ(reinterpret_cast<const unsigned char*>(storage_.payload(kDirectRingFirst + i)), lies)
        << i;
    EXPECT_EQ(storage_.slot(kDirectRingFirst + i)->bytes, reach);
    EXPECT_EQ(storage_.note(kDirectRingFirst + i), reach / 2);
    storage_.credit() = storage_.completed() = kDirectRingFirst + i;
    sender_.move();
    EXPECT_EQ(load(kernel_.link.credit), kDirectFirst + i);
  }
}

class DirectReceiving : public testing::Test {
 protected:
  /// As the transport leaves it: the payload of a direct message is not in its slot.
  void arrive(uint32_t i, uint32_t reach) {
    SlotHeader* const slot = storage_.slot(kDirectRingFirst + i);
    slot->callHash = i;
    slot->operation = 7;
    slot->bytes = reach;
    transports::noteOf(slot) = reach - 1;
    std::memset(transports::payloadOf(slot, reach), static_cast<int>(i), reach);
    slot->sequence.store(kDirectRingFirst + i, std::memory_order_release);
  }
  bool isThere(uint32_t i, uint32_t bytes) {
    MessageHeader* const slot = kernel_.slot(kernel_.link.receiveSlots, kDirectFirst + i);
    return load(&slot->sequence) == kDirectFirst + i && slot->callHash == i &&
           slot->operation == 7 && slot->bytes == bytes;
  }
  unsigned char* payload(uint32_t i) {
    return Kernel::payload(kernel_.slot(kernel_.link.receiveSlots, kDirectFirst + i));
  }
  uint32_t given() { return storage_.credit().load() - kDirectRingFirst; }
  void take(uint32_t messages) { store(kernel_.link.peerCredit, kDirectFirst + messages); }

  const Arrivals arrivals_{0};
  Kernel kernel_{kDirectFirst, kSlotBytes, kDirectBytes};
  RingStorage storage_{ringLayout(), kDirectRingFirst};
  ReceiveRing ring_{storage_.memory(), kDirectRingFirst};
  RemoteReceiver receiver_{kernel_.link, kernel_.layout, ring_, 5, arrivals_};
};

// Its place is the kernel's until that has taken the message, and those behind it wait, too.
TEST_F(DirectReceiving, KeepsTheRingsSlotUntilTheKernelHasTaken) {
  for (uint32_t turn = 0, i = 0; turn < 4; ++turn, i += kSlots) {
    arrive(i + 1, 100);
    arrive(i + 2, 300);
    arrive(i + 3, 100);
    EXPECT_TRUE(receiver_.move());
    EXPECT_EQ(given(), i + 1);
    EXPECT_FALSE(receiver_.move());
    for (uint32_t m = 1; m <= 3; ++m) EXPECT_TRUE(isThere(i + m, m == 2 ? 299 : 99)) << m;
    take(i + 1);
    EXPECT_FALSE(receiver_.move());
    arrive(i + 4, 400);
    EXPECT_TRUE(receiver_.move());
    EXPECT_TRUE(isThere(i + 4, 399));
    take(i + 2);
    EXPECT_TRUE(receiver_.move());
    EXPECT_EQ(given(), i + 3);
    take(i + 4);
    EXPECT_TRUE(receiver_.move());
    EXPECT_EQ(given(), i + 4);
  }
}

TEST_F(DirectReceiving, TouchesNoPinnedPayloadAndFlushes) {
  const auto flushes = [] { return emulation::deviceAt(0).flushes.load(); };
  const uint64_t before = flushes();
  std::memset(payload(1), 0xee, kSlotBytes);
  arrive(1, kDirectBytes);
  EXPECT_TRUE(receiver_.move());
  for (size_t b = 0; b < kSlotBytes; ++b) ASSERT_EQ(payload(1)[b], 0xee) << b;
  EXPECT_EQ(flushes(), before + 1);
  arrive(2, kDirectBytes - 1);
  EXPECT_TRUE(receiver_.move());
  EXPECT_EQ(payload(2)[kDirectBytes - 2], 2);
  EXPECT_EQ(flushes(), before + 1);
}

TEST_F(DirectReceiving, NeedsTheSameSlotsHereAndOnTheWay) {
  ReceiveRing other(storage_.memory(), kDirectRingFirst + 1);
  EXPECT_THROW(RemoteReceiver(kernel_.link, kernel_.layout, other, 5, arrivals_), Error);
}

}  // namespace
}  // namespace tutti::tests
