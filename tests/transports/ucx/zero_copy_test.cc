// Payloads that an endpoint over UCX sends from where they lie, and that are wanted back.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>

#include <tutti/error.h>
#include "src/base/clock.h"
#include "tests/support/leftovers.h"
#include "tests/support/outcome.h"
#include "tests/transports/ucx/endpoints.h"
#include "transports/ucx/worker.h"

namespace tutti::tests {
namespace {

using transports::ReceiveRing;
using transports::SendRing;

// To a peer that stops now and then, so that what is sent waits for the socket. What was returned
// is spoilt at once.
TEST(UcxZeroCopy, IsReturnedWhenItIsReadNoMore) {
  constexpr uint32_t kBytes = 1 << 20, kSlots = 16, kMessages = 64;
  const auto workers = makeWorkers(2);
  auto all = makeEndpoints(workers, {.channels = 1, .slotCount = kSlots, .slotBytes = kBytes});
  connectAll(all);
  SendRing& ring = all[0]->sendRing(1, 0);
  ReceiveRing& other = all[1]->receiveRing(0, 0);
  std::vector<std::vector<std::byte>> zeroCopy(kMessages);
  uint32_t spoilt = 0;
  const auto deadline = base::Deadline::after(kPatience);
  while (spoilt < kMessages || other.received() < kMessages) {
    ASSERT_FALSE(deadline.passed()) << ring.sent() << " sent, " << spoilt << " completed";
    {
      const auto stopped = workers[1]->lock();
      while (ring.ready() && ring.sent() < kMessages) {
        auto& data = zeroCopy[ring.sent()];
        data.assign(kBytes, static_cast<std::byte>(ring.sent() + 1));
        ring.publishZeroCopy(data.data(), ring.sent() + 1, 1, kBytes);
      }
      for (int i = 0; i < 20; ++i) all[0]->progress();
      for (; spoilt < ring.sent() && ring.completed(spoilt + 1); ++spoilt)
        std::ranges::fill(zeroCopy[spoilt], std::byte{0xee});
    }
    for (int i = 0; i < 20; ++i)
      for (auto& endpoint : all) endpoint->progress();
    for (; other.ready(); other.release())
      ASSERT_TRUE(holds(other, kBytes, other.received() + 1)) << other.received() + 1;
  }
}

// A peer that takes nothing: zero-copy sends to it are cancelled.
TEST(UcxZeroCopy, IsCancelledForAPeerThatTakesNothing) {
  constexpr uint32_t kBytes = 1 << 20;
  const auto workers = makeWorkers(2);
  auto all = makeEndpoints(workers, {.channels = 1, .slotCount = 64, .slotBytes = kBytes});
  connectAll(all);
  SendRing& ring = all[0]->sendRing(1, 0);
  ReceiveRing& other = all[1]->receiveRing(0, 0);
  std::vector<std::byte> memory(kBytes, std::byte{1});
  ring.publishZeroCopy(memory.data(), 1, 1, kBytes);
  ASSERT_TRUE(progressUntil(all, [&] { return other.ready() && ring.completed(1); }));
  {
    const auto stopped = workers[1]->lock();  // its thread waits for it too
    while (ring.sent() < 64) ring.publishZeroCopy(memory.data(), 1, 1, kBytes);
    for (int i = 0; i < 100; ++i) all[0]->progress();
    ASSERT_FALSE(ring.completed(64)) << "the network holds 63 MiB";
    cancelZeroCopy(*all[0]);
    std::ranges::fill(memory, std::byte{2});
  }
  const auto outcome = outcomeOf([&] { progressUntil(all, [] { return false; }); });
  EXPECT_EQ(outcome.code, ErrorCode::PeerLost) << outcome.text;
  // What the peer got before is as it was sent.
  for (; other.ready(); other.release())
    EXPECT_TRUE(std::all_of(other.payload(), other.payload() + kBytes,
                            [](std::byte b) { return b == std::byte{1}; }));
}

// Nothing that was sent zero-copy and not sent yet is sent later.
TEST(UcxZeroCopy, IsNotSentAfterItWasCancelled) {
  const auto workers = makeWorkers(2);
  auto all = makeEndpoints(workers, {.channels = 1, .slotCount = 4, .slotBytes = 65536});
  connectAll(all);
  SendRing& ring = all[0]->sendRing(1, 0);
  ReceiveRing& other = all[1]->receiveRing(0, 0);
  std::vector<std::byte> memory(65536, std::byte{1});
  ring.publishZeroCopy(memory.data(), 1, 1, 65536);
  ASSERT_TRUE(progressUntil(all, [&] { return other.ready() && ring.completed(1); }));
  ring.publishZeroCopy(memory.data(), 1, 1, 65536);
  cancelZeroCopy(*all[0]);
  memory = {};
  other.release();
  all[0]->drain([] { return false; });
  all[0].reset();  // posts what was published
  progressUntil(all, [deadline = base::Deadline::after(std::chrono::milliseconds(200))] {
    return deadline.passed();
  });
  EXPECT_FALSE(other.ready());
}

}  // namespace
}  // namespace tutti::tests
