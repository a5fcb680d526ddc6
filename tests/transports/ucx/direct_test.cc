// Direct messages over UCX: where their payloads go, who fetches them, and what becomes of those
// that are under way when somebody takes his memory back. Any memory stands for a device's.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <tutti/error.h>
#include "src/base/clock.h"
#include "tests/support/leftovers.h"
#include "tests/support/outcome.h"
#include "tests/transports/ucx/fabrics.h"
#include "transports/ucx/worker.h"

namespace tutti::tests {
namespace {

using transports::DirectSlots;
using transports::ReceiveRing;
using transports::SendRing;
using transports::ucx::makeUcxEndpoint;
using transports::ucx::makeWorker;

constexpr uint32_t kSlots = 4, kBytes = 1 << 20, kLeast = 1000;
constexpr auto kMoment = std::chrono::milliseconds(100);

/// Places for the messages of a ring.
struct Places {
  std::shared_ptr<std::vector<std::byte>> memory =
      std::make_shared<std::vector<std::byte>>(size_t{kSlots} * kBytes);
  DirectSlots slots() const { return {memory->data(), kBytes, kLeast, memory}; }
  /// Message `number` is all there, or no byte of it.
  bool holds(uint32_t number, uint32_t bytes, std::byte value) const {
    const auto* const at = memory->data() + size_t{(number - 1) % kSlots} * kBytes;
    return std::all_of(at, at + bytes, [&](std::byte b) { return b == value; });
  }
};

/// Rank 0 sends to rank 1; their connection is made by the first message, if at all.
class UcxDirect : public testing::Test {
 protected:
  void SetUp() override {
    for (int r = 0; r < 2; ++r) workers_.push_back(makeWorker(overTcp()));
    for (int r = 0; r < 2; ++r)
      all_.push_back(makeUcxEndpoint(workers_[r], r, 2,
                                     {.channels = 1, .slotCount = kSlots, .slotBytes = kBytes}));
    connectAll(all_);
    DirectSlots slots = places_.slots();
    slots.enter = [this] { entered_ = std::this_thread::get_id(); };
    ASSERT_TRUE(all_[0]->goDirect(1, 0, Places().slots()));
    ASSERT_TRUE(all_[1]->goDirect(0, 0, slots));
  }
  SendRing& ring() { return all_[0]->sendRing(1, 0); }
  ReceiveRing& other() { return all_[1]->receiveRing(0, 0); }
  /// The next message: of that memory, which is filled.
  void publishZeroCopy(std::vector<std::byte>& memory, std::byte value) {
    std::ranges::fill(memory, value);
    ring().publishZeroCopy(memory.data(), 1, 1, static_cast<uint32_t>(memory.size()));
  }
  bool progressUntil(const std::function<bool()>& condition) {
    return eventually([&] {
      for (const auto& endpoint : all_)
        if (endpoint) endpoint->progress();
      return condition();
    });
  }
  /// A small message, so that there is a connection.
  void meet() {
    std::vector<std::byte> memory(64);
    publishZeroCopy(memory, std::byte{9});
    ASSERT_TRUE(progressUntil([&] { return other().ready() && ring().completed(1); }));
    other().release();
  }
  void progressForAMoment(Endpoint& endpoint) {
    for (const auto end = base::Deadline::after(kMoment); !end.passed();) endpoint.progress();
  }
  /// Rank 0 has said that there is a message, and is not there when it is fetched.
  std::unique_lock<std::mutex> stopSender() {
    const auto untilThen = workers_[1]->lock();
    all_[0]->flush();
    return workers_[0]->lock();
  }
  static void cancelZeroCopy(Endpoint& endpoint) {
    ASSERT_TRUE(eventually([&] { return endpoint.cancelZeroCopy(); }));
  }

  std::vector<std::shared_ptr<transports::ucx::Worker>> workers_;
  std::vector<std::unique_ptr<Endpoint>> all_;
  Places places_;
  std::atomic<std::thread::id> entered_{};
};

// By its own thread, where nobody else moves it; that has been prepared for such memory.
TEST_F(UcxDirect, IsFetchedByAThreadThatHasEntered) {
  meet();
  std::vector<std::byte> memory(kBytes);
  publishZeroCopy(memory, std::byte{3});
  ASSERT_TRUE(eventually([&] {
    all_[0]->progress();
    return other().ready();
  }));
  EXPECT_TRUE(places_.holds(2, kBytes, std::byte{3}));
  EXPECT_NE(entered_.load(), std::thread::id());
  EXPECT_NE(entered_.load(), std::this_thread::get_id());
}

// The host may not be able to read it: until there is a connection it is not copied, as other
// zero-copy payloads are, but waits where it is.
TEST_F(UcxDirect, IsNotCopiedWhileThereIsNoConnection) {
  std::vector<std::byte> large(kBytes), small(kLeast - 1);
  {
    const auto stopped = workers_[1]->lock();
    publishZeroCopy(small, std::byte{1});
    publishZeroCopy(large, std::byte{2});
    progressForAMoment(*all_[0]);
    for (auto* memory : {&large, &small}) std::ranges::fill(*memory, std::byte{4});
  }
  ASSERT_TRUE(progressUntil([&] { return other().ready(1) && ring().completed(2); }));
  EXPECT_EQ(*other().payload(), std::byte{1});
  EXPECT_TRUE(places_.holds(2, kBytes, std::byte{4}));
}

// Its sender stands still while it is fetched. Behind cancelZeroCopy() nothing is written there,
// and the message never comes.
TEST_F(UcxDirect, IsTakenBackFromAPeerThatStandsStill) {
  meet();
  std::vector<std::byte> memory(kBytes);
  publishZeroCopy(memory, std::byte{5});
  {
    const auto stopped = stopSender();
    progressForAMoment(*all_[1]);
    EXPECT_FALSE(other().ready());
    cancelZeroCopy(*all_[1]);
    std::ranges::fill(*places_.memory, std::byte{6});
  }
  EXPECT_EQ(outcomeOf([&] { progressUntil([] { return false; }); }).code, ErrorCode::PeerLost);
  EXPECT_FALSE(other().ready());
  for (uint32_t number = 1; number <= kSlots; ++number)
    EXPECT_TRUE(places_.holds(number, kBytes, std::byte{6})) << number;
}

// An endpoint that goes while one is fetched leaves the memory to UCX until that is through.
TEST_F(UcxDirect, KeepsItsPlaceWhileItIsFetched) {
  meet();
  std::vector<std::byte> memory(kBytes);
  publishZeroCopy(memory, std::byte{8});
  std::weak_ptr<std::vector<std::byte>> place = places_.memory;
  {
    const auto stopped = stopSender();
    progressForAMoment(*all_[1]);
    all_[1].reset();
    places_.memory.reset();
    EXPECT_FALSE(place.expired());
  }
  EXPECT_TRUE(progressUntil([&] { return place.expired(); }));
}

TEST_F(UcxDirect, IsLargerThanTheHeadersLine) {
  const auto code = [&](size_t least, size_t stride) {
    return outcomeOf([&] {
             all_[0]->goDirect(1, 0, {places_.memory->data(), stride, least, places_.memory});
           })
        .code;
  };
  EXPECT_EQ(code(transports::kInlineBytes, kBytes), ErrorCode::InvalidArgument);
  EXPECT_EQ(code(kLeast, kBytes - 1), ErrorCode::InvalidArgument);
}

}  // namespace
}  // namespace tutti::tests
