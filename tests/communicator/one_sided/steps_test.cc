// What one step of a one-sided call does, and what a rank knows when it makes it.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <tutti/tutti.h>

#include "src/communicator/one_sided/one_sided.h"
#include "tests/communicator/one_sided/pair.h"
#include "tests/support/leftovers.h"
#include "tests/support/outcome.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using communicator::OneSidedCall;
using communicator::OneSidedProgress;

// Whoever ends the communicator waits for one step at most. The signal comes last.
TEST(OneSidedSteps, MoveABoundedNumberOfBytesBeforeTheSignal) {
  OneSidedPair pair(nullptr, 0);
  constexpr size_t kBytes = 50'000'000, kMost = 4'000'000;
  std::vector<std::byte> from(kBytes), to(kBytes);
  OneSidedCall call;
  call.puts.push_back({.peer = 1,
                       .window = 1,
                       .data = from.data(),
                       .bytes = kBytes,
                       .direct = {std::shared_ptr<void>(), to.data()}});
  OneSidedProgress progress;
  const transports::SendRing& ring = pair.parts(0).oneSided.endpoint()->sendRing(1, 0);
  const uint32_t sent = ring.sent();
  uint64_t before = 0;
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(pair.parts(0).oneSided.advance(call, progress), executor::Poll::Moved);
    EXPECT_GT(progress.bytes, before);
    EXPECT_LE(progress.bytes, before + kMost);
    EXPECT_EQ(ring.sent(), sent);
    before = progress.bytes;
  }
  pair.parts(0).oneSided.forget(progress);
}

// What it has sent before it leaves the peer can take, even if that hears of it late: here while
// its monitor waits for a lock, at what rank 2 says.
TEST(OneSidedSteps, SendOnlyToARankThatHasConnected) {
  auto parts = makeParts(3, {});
  std::vector<std::optional<Communicator>> ranks;
  for (const auto& part : parts) ranks.emplace_back(part);
  const Window mine = ranks[1]->window({});
  auto lock = parts[1]->failure.lock();
  const Window holding = ranks[2]->window({});
  std::thread sender([&] {
    std::optional<Window> window = ranks[0]->window({});
    ranks[0]->signal({.peer = 1});
    window.reset();
    ranks[0].reset();
    parts[0].reset();
  });
  std::this_thread::sleep_for(50ms);
  lock.unlock();
  const AwaitedSignals one{.peer = 0};
  const Outcome outcome = outcomeOf([&] { ranks[1]->waitSignals({.signals = {&one, 1}}); });
  sender.join();
  EXPECT_EQ(outcome.text, Outcome().text);
}

// What is put to a rank that has left fails at once: the ring would take it.
TEST(OneSidedSteps, SendNothingToARankThatIsKnownToHaveLeft) {
  OneSidedPair pair(nullptr, 0);
  pair.lastLeaves();
  ASSERT_TRUE(eventually([&] { return pair.parts(0).peers.hasLeft(1); }));
  const Outcome outcome = outcomeOf([&] { pair.rank(0).signal({.peer = 1}); });
  expectError(outcome, ErrorCode::PeerLost, "rank 1 (pid");
  expectError(outcome, ErrorCode::PeerLost, "still needs it in signal to rank 1");
}

// What comes after a failure stays in the ring: the buffer may be another communicator's by then.
TEST(OneSidedSteps, WriteNothingAfterAFailure) {
  uint64_t word = 5;
  OneSidedPair pair(&word, sizeof word);
  pair.rank(0).abort();
  transports::SendRing& ring = pair.parts(1).oneSided.endpoint()->sendRing(0, 0);
  ASSERT_TRUE(ring.ready());
  const communicator::OneSidedHeader header{.window = 1};
  constexpr uint32_t kWhole = sizeof header + sizeof word;
  std::memcpy(ring.payload(kWhole), &header, sizeof header);
  std::memset(ring.payload(kWhole) + sizeof header, 7, sizeof word);
  ring.publish(communicator::kOneSidedMark, 0, kWhole);
  bool moved = false;
  EXPECT_FALSE(pair.parts(0).oneSided.serve(moved));
  EXPECT_EQ(word, 5u);
}

// Nothing is polled for windows that are given back everywhere.
TEST(OneSidedSteps, EndWithTheLastWindow) {
  OneSidedPair pair(nullptr, 0);
  bool moved = false;
  EXPECT_TRUE(pair.parts(0).oneSided.serve(moved));
  pair.closeWindows();
  EXPECT_TRUE(eventually([&] { return !pair.parts(0).oneSided.serve(moved); }));
  EXPECT_TRUE(eventually([&] { return !pair.parts(1).oneSided.serve(moved); }));
}

}  // namespace
}  // namespace tutti::tests
