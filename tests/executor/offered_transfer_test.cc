// Long transfers between ranks of one host that lie in a window: the receiver copies them from
// there, and only if the sender's operation has not failed meanwhile. The same of a collective that
// reads a window.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include <tutti/error.h>

#include "collectives/algorithms.h"
#include "src/executor/host/exchange_operation.h"
#include "src/executor/host/host_operation.h"
#include "tests/support/outcome.h"
#include "transports/shm/endpoint.h"

namespace tutti::executor {
namespace {

constexpr uint64_t kBytes = 3 << 20;  // some pieces

/// One window, of rank 0, which rank 1 has mapped.
class OneWindow final : public WindowResolver {
 public:
  explicit OneWindow(std::vector<std::byte>& memory) : memory_(memory) {}
  WindowPlace locate(const void* data, uint64_t) const override {
    return data == memory_.data() ? WindowPlace{7, 0} : WindowPlace();
  }
  std::shared_ptr<std::byte> resolve(int, WindowPlace place, uint64_t bytes) const override {
    if (place.window != 7 || !isMapped) return nullptr;
    if (place.offset + bytes > memory_.size())
      throw Error(ErrorCode::Internal, "more than the window has");
    return {std::shared_ptr<void>(), memory_.data() + place.offset};
  }
  bool isMapped = true;

 private:
  std::vector<std::byte>& memory_;
};

/// A transfer from rank 0 to rank 1.
class OfferedTransfer : public testing::Test {
 protected:
  OfferedTransfer() {
    for (int r = 0; r < 2; ++r) ends_[r] = transports::shm::makeShmEndpoint(r, 2, {});
    for (int r = 0; r < 2; ++r) ends_[r]->connect(1 - r, ends_[1 - r]->address(r));
    sender_.begin(place(0), {.sends = {{.peer = 1, .data = from_.data(), .bytes = kBytes}}});
    receiver_.begin(place(1), {.receives = {{.peer = 0, .data = to_.data(), .bytes = kBytes}}});
    EXPECT_EQ(sender_.poll(), Poll::Moved);
    EXPECT_EQ(ends_[0]->sendRing(1, 0).sent(), 1U);  // one message, however many slots it would be
  }
  HostRank place(int rank) const {
    return {.rank = rank, .size = 2, .endpoint = ends_[rank].get(), .windows = &windows_};
  }

  std::unique_ptr<transports::Endpoint> ends_[2];
  std::vector<std::byte> from_{kBytes, std::byte{1}}, to_{kBytes};
  OneWindow windows_{from_};
  ExchangeOperation sender_, receiver_;
};

TEST_F(OfferedTransfer, IsCopiedFromItsWindow) {
  from_.back() = std::byte{2};  // it has not been copied yet
  EXPECT_EQ(sender_.poll(), Poll::Idle);
  while (receiver_.poll() != Poll::Done) EXPECT_EQ(receiver_.waitingFor(), -1);
  EXPECT_EQ(to_, from_);
  EXPECT_EQ(receiver_.bytesReceived(), kBytes);
  EXPECT_EQ(sender_.poll(), Poll::Done);
}

TEST_F(OfferedTransfer, DoesNotCountWhenTheSendersOperationHasFailed) {
  EXPECT_EQ(receiver_.poll(), Poll::Moved);  // a piece
  ends_[0]->cancelZeroCopy();
  std::ranges::fill(from_, std::byte{3});  // the caller's again
  for (int i = 0; i < 100; ++i) EXPECT_EQ(receiver_.poll(), Poll::Idle);
  EXPECT_EQ(receiver_.waitingFor(), 0);
  EXPECT_FALSE(ends_[0]->sendRing(1, 0).taken(1));
}

TEST_F(OfferedTransfer, WaitsForTheNewsOfASenderThatHasGivenItsWindowBack) {
  windows_.isMapped = false;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(receiver_.poll(), Poll::Idle);
  EXPECT_EQ(receiver_.waitingFor(), 0);
}

TEST_F(OfferedTransfer, IsRefusedWhereItsWindowIsSmaller) {
  from_.resize(kBytes - 1);
  EXPECT_EQ(tests::outcomeOf([&] { receiver_.poll(); }).code, ErrorCode::Internal);
}

HostPlan broadcastPlan(plan::Protocol protocol, int rank) {
  for (const collectives::AlgorithmInfo& info : collectives::registry().algorithms())
    if (const auto spec = info.spec({plan::Collective::Broadcast, protocol, 2, 0, 1}))
      return {*spec, info.build(*spec, rank), rank};
  throw Error(ErrorCode::Internal, "no plan");
}

/// Rank 0 broadcasts from a window to ordinary memory, so that rank 1 copies the window.
class BroadcastFromAWindow : public testing::Test {
 protected:
  BroadcastFromAWindow() {
    for (int r = 0; r < 2; ++r) ends_[r] = transports::shm::makeShmEndpoint(r, 2, {});
    for (int r = 0; r < 2; ++r) {
      ends_[r]->connect(1 - r, ends_[1 - r]->address(r));
      std::byte* const out = (r == 0 ? from_ : to_).data();
      const CallFacts facts{.collective = plan::Collective::Broadcast, .count = kBytes};
      operations_[r].begin(
          {.rank = r, .size = 2, .endpoint = ends_[r].get(), .windows = &windows_},
          {.staged = &staged_[r], .mapped = &mapped_[r], .attached = &attached_[r]},
          {.facts = facts, .in = from_.data(), .out = out});
    }
    EXPECT_EQ(operations_[0].poll(), Poll::Moved);
    EXPECT_EQ(operations_[1].poll(), Poll::Moved);  // a piece
    EXPECT_EQ(operations_[1].spec()->protocol, plan::Protocol::Attached);
    EXPECT_EQ(to_.front(), std::byte{1});
    EXPECT_EQ(to_.back(), std::byte{0});
  }

  std::unique_ptr<transports::Endpoint> ends_[2];
  std::vector<std::byte> from_{kBytes, std::byte{1}}, to_{kBytes};
  OneWindow windows_{from_};
  HostPlan staged_[2] = {broadcastPlan(plan::Protocol::Simple, 0),
                         broadcastPlan(plan::Protocol::Simple, 1)};
  HostPlan mapped_[2] = {broadcastPlan(plan::Protocol::Mapped, 0),
                         broadcastPlan(plan::Protocol::Mapped, 1)};
  HostPlan attached_[2] = {broadcastPlan(plan::Protocol::Attached, 0),
                           broadcastPlan(plan::Protocol::Attached, 1)};
  HostOperation operations_[2];
};

TEST_F(BroadcastFromAWindow, IsCopied) {
  while (operations_[1].poll() != Poll::Done) EXPECT_NE(operations_[0].poll(), Poll::Done);
  while (operations_[0].poll() != Poll::Done) continue;
  EXPECT_EQ(to_, from_);
}

TEST_F(BroadcastFromAWindow, IsNotDoneWhenTheRootsOperationHasFailed) {
  ends_[0]->cancelZeroCopy();
  std::ranges::fill(from_, std::byte{3});  // the caller's again
  for (int i = 0; i < 100; ++i) EXPECT_NE(operations_[1].poll(), Poll::Done);
  EXPECT_EQ(operations_[1].waitingFor(), 0);
}

}  // namespace
}  // namespace tutti::executor
