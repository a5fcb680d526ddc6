// The rings of connection.h by themselves, over plain memory.

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "src/base/backoff.h"
#include "src/base/clock.h"
#include "transports/connection.h"

namespace tutti::transports {
namespace {

// One ring whose slots hold the numbers that they have after `number` messages.
class Memory {
 public:
  Memory(uint32_t slotCount, size_t slotBytes, uint32_t number = 0)
      : bytes_(slotCount * slotStride(slotBytes) + kLineBytes), credit_(number) {
    auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    std::byte* first = bytes_.data() + (kLineBytes - address % kLineBytes) % kLineBytes;
    ring = {first, &credit_, slotCount, slotStride(slotBytes)};
    restart(number);
  }
  void restart(uint32_t number) {
    credit_ = number;
    for (uint32_t i = 0; i < ring.slotCount; ++i)
      (new (ring.slots + i * ring.strideBytes) SlotHeader{})->sequence = number;
  }
  RingMemory ring;

 private:
  std::vector<std::byte> bytes_;
  std::atomic<uint32_t> credit_;
};

TEST(Slot, SmallPayloadsShareTheHeadersLine) {
  alignas(kLineBytes) std::byte line[2 * kLineBytes];
  auto* slot = reinterpret_cast<SlotHeader*>(line);
  EXPECT_EQ(kInlineBytes, 48u);
  for (size_t bytes : {0, 1, 47, 48}) EXPECT_EQ(payloadOf(slot, bytes), line + 16) << bytes;
  for (size_t bytes : {49, 64, 65}) EXPECT_EQ(payloadOf(slot, bytes), line + 64) << bytes;
  EXPECT_EQ(slotStride(64), 128u);
  EXPECT_EQ(slotStride(65), 192u);
}

// It is where no payload of its own message lies, and the other messages have none.
TEST(Slot, ANoteLiesBetweenHeaderAndPayload) {
  alignas(kLineBytes) std::byte line[2 * kLineBytes];
  auto* slot = reinterpret_cast<SlotHeader*>(line);
  EXPECT_EQ(reinterpret_cast<std::byte*>(&noteOf(slot)), line + 16);
  Memory memory(2, 64);
  SendRing send(memory.ring);
  ReceiveRing receive(memory.ring);
  std::memset(send.payload(49), 7, 49);
  send.publish(1, 2, 49, 0xdeadbeef);
  ASSERT_TRUE(receive.ready());
  EXPECT_EQ(receive.slot()->callHash, 1u);
  EXPECT_EQ(receive.slot()->operation, 2u);
  EXPECT_EQ(receive.slot()->bytes, 49u);
  EXPECT_EQ(noteOf(receive.slot()), 0xdeadbeef);
  for (int i = 0; i < 49; ++i) EXPECT_EQ(receive.payload()[i], std::byte{7}) << i;
}

TEST(Ring, AFreshOneIsEmptyAndTakesAllItsSlots) {
  Memory memory(4, 64);
  SendRing send(memory.ring);
  ReceiveRing receive(memory.ring);
  EXPECT_FALSE(receive.ready());
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(send.ready());
    send.publish(1, 2, 3);
  }
  EXPECT_FALSE(send.ready());
  EXPECT_EQ(send.inFlight(), 4u);
  ASSERT_TRUE(receive.ready());
  EXPECT_EQ(receive.slot()->callHash, 1u);
  EXPECT_EQ(receive.slot()->operation, 2u);
  EXPECT_EQ(receive.slot()->bytes, 3u);
  receive.release();
  EXPECT_TRUE(send.ready());
  EXPECT_EQ(send.inFlight(), 3u);
}

// The numbers of messages wrap around after 2^32 of them, for every number of slots and every
// fill level at the wrap.
TEST(Ring, NumbersWrapAround) {
  for (const uint32_t slots : {2u, 4u, 8u})
    for (uint32_t ahead = 1; ahead <= slots; ++ahead) {
      const uint32_t start = UINT32_MAX - 2 * slots - 1;
      Memory memory(slots, 64, start);
      SendRing send(memory.ring, start);
      ReceiveRing receive(memory.ring, start);
      uint32_t sent = 0, received = 0;
      for (int step = 0; step < 200; ++step) {
        while (sent - received < ahead) {
          ASSERT_TRUE(send.ready()) << slots << " slots, message " << sent;
          std::memcpy(send.payload(4), &sent, 4);
          send.publish(0, ++sent, 4);
        }
        EXPECT_EQ(send.ready(), ahead < slots);
        EXPECT_EQ(send.inFlight(), ahead);
        ASSERT_TRUE(receive.ready()) << slots << " slots, message " << received;
        EXPECT_EQ(std::memcmp(receive.payload(), &received, 4), 0);
        EXPECT_EQ(receive.slot()->operation, ++received);
        receive.release();
      }
      EXPECT_EQ(send.sent(), start + 200 + ahead - 1);
      EXPECT_LT(receive.received(), start);  // it did wrap
    }
}

// Of a slot of 64 KiB, over its first 16: both ends find each message at one place, which is in the
// slot, and messages of one slot take turns at as many places as there are.
TEST(Ring, MessagesTakeTurnsAtThePlacesOfASlot) {
  constexpr size_t kSlotBytes = 64 << 10, kSpread = 16 << 10;
  constexpr uint32_t kStart = UINT32_MAX - 99;  // the numbers wrap
  Memory memory(2, kSlotBytes);
  memory.ring.spreadMask = kSpread - 1;
  for (const size_t bytes : {0, 48, 49, 255, 256, 257, 3000, 4096, 16384, 16385, 65536}) {
    SendRing send(memory.ring, kStart);
    ReceiveRing receive(memory.ring, kStart);
    memory.restart(kStart);
    std::set<std::ptrdiff_t> places;
    for (int i = 0; i < 512; ++i) {
      ASSERT_TRUE(send.ready());
      std::byte* const payload = send.payload(bytes);
      const auto place = payload - reinterpret_cast<std::byte*>(send.slot());
      ASSERT_LE(place + bytes, kLineBytes + kSlotBytes) << bytes;
      ASSERT_EQ(place % (bytes < 256 ? 16 : kLineBytes), 0u) << bytes;
      places.insert(place);
      send.publish(1, 2, static_cast<uint32_t>(bytes));
      ASSERT_TRUE(receive.ready());
      ASSERT_EQ(receive.payload(), payload) << bytes;
      receive.release();
    }
    const size_t wanted = bytes < 256 || bytes > kSpread ? 1 : kSpread / std::bit_ceil(bytes);
    EXPECT_EQ(places.size(), wanted) << bytes;
  }
}

TEST(Ring, TwoThreadsAcrossTheWrap) {
  const uint32_t start = UINT32_MAX - 1000;
  Memory memory(4, 256, start);
  constexpr uint32_t kMessages = 20'000;
  const auto deadline = base::Deadline::after(std::chrono::seconds(60));
  std::thread sending([&] {
    SendRing send(memory.ring, start);
    base::Backoff backoff(false);
    for (uint32_t i = 0; i < kMessages && !deadline.passed();) {
      if (!send.ready()) {
        backoff.idle();
        continue;
      }
      backoff.reset();
      const uint32_t bytes = i % 257;
      std::memset(send.payload(bytes), static_cast<int>(i), bytes);
      send.publish(i, i, bytes);
      ++i;
    }
  });
  ReceiveRing receive(memory.ring, start);
  base::Backoff backoff(false);
  uint32_t next = 0, wrong = 0;
  while (next < kMessages && !deadline.passed()) {
    if (!receive.ready()) {
      backoff.idle();
      continue;
    }
    backoff.reset();
    const SlotHeader& header = *receive.slot();
    wrong += header.operation != next || header.bytes != next % 257;
    for (uint32_t i = 0; i < next % 257; ++i)
      wrong += receive.payload()[i] != static_cast<std::byte>(next);
    receive.release();
    ++next;
  }
  sending.join();
  EXPECT_EQ(next, kMessages);
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace tutti::transports
