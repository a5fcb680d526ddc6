// What lies between a kernel's slots in pinned memory and a transport's ring: the test is the
// kernel on one side and the transport on the other.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "tests/executor/kernel/link_kernel.h"
#include "transports/ring_storage.h"

namespace tutti::tests {
namespace {

using executor::kernel::Arrivals;
using executor::kernel::kLeastTravel;
using executor::kernel::RemoteReceiver;
using executor::kernel::RemoteSender;
using transports::ReceiveRing;
using transports::RingStorage;
using transports::SendRing;
using transports::SlotHeader;

/// Kernel numbers begin at kFirst, those of the ring at kRingFirst: both wrap, at other messages.
constexpr uint32_t kFirst = UINT32_MAX - 5, kRingFirst = UINT32_MAX - 2;

class Sending : public testing::TestWithParam<bool> {
 protected:
  static transports::RingMemory memoryOf(RingStorage& storage) {
    auto memory = storage.memory();
    if (!GetParam()) memory.zeroCopy = nullptr;
    return memory;
  }
  /// What the transport sees of the `i`th message, from 1.
  void expectSent(uint32_t i, uint32_t reach) {
    const SlotHeader& header = *storage_.slot(kRingFirst + i);
    ASSERT_EQ(header.sequence.load(), kRingFirst + i);
    EXPECT_EQ(header.callHash, 1000 + kFirst + i);
    EXPECT_EQ(header.operation, 2000 + kFirst + i);
    ASSERT_EQ(header.bytes, std::max(reach, kLeastTravel));
    EXPECT_EQ(storage_.note(kRingFirst + i), reach / 2);
    const std::byte* const data = storage_.payload(kRingFirst + i);
    for (uint32_t b = 0; b < reach; ++b)
      ASSERT_EQ(data[b], static_cast<std::byte>(kFirst + i)) << b;
  }
  uint32_t credit() { return load(kernel_.link.credit) - kFirst; }

  Kernel kernel_{kFirst};
  RingStorage storage_{ringLayout(), kRingFirst};
  SendRing ring_{memoryOf(storage_), kRingFirst};
  RemoteSender sender_{kernel_.link, kernel_.layout, ring_};
};

TEST_P(Sending, CarriesHeaderGapsAndPayload) {
  EXPECT_TRUE(sender_.isSettled());
  EXPECT_FALSE(sender_.move());
  for (const uint32_t reach : {0U, 2U, 63U, 64U, 65U, 512U}) {
    const uint32_t i = ring_.sent() - kRingFirst + 1;
    kernel_.publish(kFirst + i, reach);
    EXPECT_FALSE(sender_.isSettled());
    EXPECT_TRUE(sender_.move());
    expectSent(i, reach);
    storage_.credit() = kRingFirst + i;
    storage_.completed() = kRingFirst + i;
  }
}

// What is sent zero-copy is the kernel's again when the transport is through with it, and what was
// copied at once.
TEST_P(Sending, GivesSlotsBackWhenNobodyReadsThem) {
  for (uint32_t i = 1; i <= 3; ++i) kernel_.publish(kFirst + i, 100);
  EXPECT_TRUE(sender_.move());
  EXPECT_EQ(credit(), GetParam() ? 0U : 3U);
  EXPECT_EQ(sender_.isSettled(), !GetParam());
  storage_.completed() = kRingFirst + 2;
  EXPECT_EQ(sender_.move(), GetParam());
  EXPECT_EQ(credit(), GetParam() ? 2U : 3U);
  storage_.completed() = kRingFirst + 3;
  sender_.move();
  EXPECT_EQ(credit(), 3U);
  EXPECT_TRUE(sender_.isSettled());
}

// A full ring takes no more; in two rounds over the slots, and across both wraps.
TEST_P(Sending, WaitsForRoomInTheRing) {
  uint32_t next = 1;
  for (; next <= kSlots; ++next) kernel_.publish(kFirst + next, 64);
  sender_.move();
  storage_.completed() = kRingFirst + kSlots;
  sender_.move();
  for (uint32_t taken = 1; taken <= 3 * kSlots; ++taken, ++next) {
    ASSERT_EQ(credit(), next - 1);
    kernel_.publish(kFirst + next, 64);
    EXPECT_FALSE(sender_.move());
    EXPECT_FALSE(sender_.isSettled());
    if (!GetParam()) expectSent(taken, 64);  // as it was; what was returned may change
    storage_.credit() = kRingFirst + taken;
    EXPECT_TRUE(sender_.move());
    expectSent(next, 64);
    storage_.completed() = kRingFirst + next;
    sender_.move();
  }
}

INSTANTIATE_TEST_SUITE_P(ZeroCopyAndCopied, Sending, testing::Bool());

class Receiving : public testing::Test {
 protected:
  /// The `i`th message arrives, from 1.
  void arrive(uint32_t i, uint32_t reach, uint32_t bytes) {
    SlotHeader* const slot = storage_.slot(kRingFirst + i);
    slot->callHash = 1000 + i;
    slot->operation = 2000 + i;
    slot->bytes = std::max(reach, kLeastTravel);
    transports::noteOf(slot) = bytes;
    std::memset(transports::payloadOf(slot, slot->bytes), static_cast<int>(i), reach);
    slot->sequence.store(kRingFirst + i, std::memory_order_release);
  }
  MessageHeader* slot(uint32_t i) { return kernel_.slot(kernel_.link.receiveSlots, kFirst + i); }
  void expectThere(uint32_t i, uint32_t reach, uint32_t bytes) {
    MessageHeader* const s = slot(i);
    ASSERT_EQ(load(&s->sequence), kFirst + i);
    EXPECT_EQ(s->callHash, 1000 + i);
    EXPECT_EQ(s->operation, 2000 + i);
    EXPECT_EQ(s->bytes, bytes);
    for (uint32_t b = 0; b < reach; ++b) ASSERT_EQ(Kernel::payload(s)[b], i) << b;
  }
  uint32_t given() { return storage_.credit().load() - kRingFirst; }
  void take(uint32_t messages) { store(kernel_.link.peerCredit, kFirst + messages); }

  Kernel kernel_{kFirst};
  RingStorage storage_{ringLayout(), kRingFirst};
  ReceiveRing ring_{storage_.memory(), kRingFirst};
  const Arrivals arrivals_{0};
  RemoteReceiver receiver_{kernel_.link, kernel_.layout, ring_, 5, arrivals_};
};

TEST_F(Receiving, CarriesHeaderGapsAndPayload) {
  EXPECT_FALSE(receiver_.move());
  uint32_t i = 0;
  for (const uint32_t reach : {0U, 1U, 64U, 65U, 512U}) {
    arrive(++i, reach, reach / 3);
    EXPECT_TRUE(receiver_.move());
    expectThere(i, reach, reach / 3);
    EXPECT_EQ(given(), i);
    take(i);
  }
}

// A slot that the kernel has not given back is not written, and then the transport's is not either.
TEST_F(Receiving, WaitsUntilTheKernelHasTaken) {
  for (uint32_t i = 1; i <= kSlots; ++i) arrive(i, 64, 64);
  EXPECT_TRUE(receiver_.move());
  EXPECT_EQ(given(), kSlots);
  for (uint32_t i = kSlots + 1; i <= 4 * kSlots; ++i) {
    arrive(i, 64, 64);
    EXPECT_FALSE(receiver_.move());
    EXPECT_EQ(given(), i - 1);
    expectThere(i - kSlots, 64, 64);
    take(i - kSlots);
    EXPECT_TRUE(receiver_.move());
    expectThere(i, 64, 64);
  }
}

TEST_F(Receiving, RefusesWhatNoKernelSends) {
  const auto refused = [&](uint32_t travelled, uint32_t bytes) {
    arrive(1, 0, bytes);
    storage_.slot(kRingFirst + 1)->bytes = travelled;
    RingStorage& storage = storage_;
    ReceiveRing ring(storage.memory(), kRingFirst);
    RemoteReceiver receiver(kernel_.link, kernel_.layout, ring, 5, arrivals_);
    try {
      receiver.move();
      return std::string("nothing");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Refused);
      return std::string(error.what());
    }
  };
  const std::string words = "bytes from rank 5 cannot be what its kernel sent";
  EXPECT_EQ(refused(63, 0), "a message of 63 " + words);
  EXPECT_EQ(refused(0, 0), "a message of 0 " + words);
  EXPECT_EQ(refused(513, 0), "a message of 513 " + words);
  EXPECT_EQ(refused(64, 65), "a message of 64 " + words);
  EXPECT_EQ(refused(64, 64), "nothing");
}

// The number is there after all else: a reader that sees it finds the whole message.
TEST(Racing, AMessageIsWholeWhenItsNumberIsThere) {
  constexpr size_t kLarge = 65536;
  constexpr uint32_t kMessages = 2000;
  Kernel kernel(0, kLarge);
  RingStorage storage(ringLayout(kLarge));
  ReceiveRing ring(storage.memory());
  const Arrivals arrivals(0);
  RemoteReceiver receiver(kernel.link, kernel.layout, ring, 5, arrivals);
  std::thread reader([&] {
    for (uint32_t i = 1; i <= kMessages; ++i) {
      MessageHeader* const slot = kernel.slot(kernel.link.receiveSlots, i);
      while (load(&slot->sequence) != i) std::this_thread::yield();
      const unsigned char* const data = Kernel::payload(slot);
      EXPECT_EQ(slot->callHash, i);
      EXPECT_EQ(data[0] + data[kLarge / 2] + data[kLarge - 1], 3 * (i % 251)) << i;
      store(kernel.link.peerCredit, i);
    }
  });
  for (uint32_t i = 1; i <= kMessages; ++i) {
    while (i - storage.credit().load() > kSlots) receiver.move();
    SlotHeader* const slot = storage.slot(i);
    slot->callHash = i;
    slot->bytes = kLarge;
    transports::noteOf(slot) = kLarge;
    std::memset(transports::payloadOf(slot, slot->bytes), static_cast<int>(i % 251), kLarge);
    slot->sequence.store(i, std::memory_order_release);
    receiver.move();
  }
  while (storage.credit().load() != kMessages) receiver.move();
  reader.join();
}

}  // namespace
}  // namespace tutti::tests
