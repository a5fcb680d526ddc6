// Ranks of different hosts that disagree, are aborted, are late or send what cannot be: every
// kernel ends, everybody is told, and no communicator hangs when it goes.

#include <chrono>
#include <cstring>
#include <thread>

#include "src/base/clock.h"
#include "tests/executor/kernel/failures.h"
#include "tests/executor/kernel/networks.h"

namespace tutti::tests {
namespace {

constexpr std::chrono::seconds kSoon{30};

/// Waits until the rank's executor knows of a failure that no launch has found.
Error awaitFailure(DeviceRanks& ranks, int rank) {
  for (const auto end = base::Deadline::after(kSoon); !end.passed();)
    if (const auto failed = ranks.executor(rank).failure())
      return *failed;
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return Error(ErrorCode::Internal, "nothing has failed");
}

/// A network, and whether payloads go from device to device by it.
struct Way {
  const char* network;
  bool isDirect;
};
std::ostream& operator<<(std::ostream& out, const Way& way) {
  return out << way.network << (way.isDirect ? ", direct" : "");
}

class RemoteFaults : public testing::TestWithParam<Way> {
 protected:
  static RemoteNetwork network() {
    const std::string name = GetParam().network;
    return name == "sim" ? badSimNetwork(1) : name == "tcp" ? tcpNetwork() : ucxNetwork();
  }
  static DeviceRanksOptions options(std::vector<int> hosts) {
    return {.ranks = static_cast<int>(hosts.size()),
            .hosts = hosts,
            .network = network(),
            .directBytes = GetParam().isDirect ? 300 : transports::p2p::kNoMessage};
  }
};

TEST_P(RemoteFaults, CallsThatDifferAreAMismatch) {
  DeviceRanks ranks(options({0, 1}));
  ranks.begin(ringCall(2, 300), Wire::LL, 1);
  expectDifferentCallsAreAMismatch(ranks);
}

TEST_P(RemoteFaults, CountsThatDifferAreAMismatch) {
  DeviceRanks ranks(options({0, 1}));
  ranks.begin(ringCall(2, 300), Wire::Simple, 1);
  expectDifferentCountsAreAMismatch(ranks);
}

TEST_P(RemoteFaults, ASkippedOperationIsAMismatch) {
  DeviceRanks ranks(options({0, 1}));
  ranks.begin(ringCall(2, 300), Wire::LL128, 1);
  expectSkippedIsMismatch(ranks);
}

// Rank 1 is on rank 0's host and rank 2 is not; rank 3's launch comes late, or is refused: it has
// been told meanwhile.
TEST_P(RemoteFaults, AbortEndsAllRanks) {
  DeviceRanks ranks(options({0, 0, 1, 1}));
  ranks.begin(ringCall(4, 9000), Wire::Simple, 1);
  for (int r = 0; r < 3; ++r) ranks.launch(r);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(ranks.executor(0).failure());
  ranks.executor(0).abort();
  for (int r = 0; r < 3; ++r) ranks.wait(r);
  EXPECT_EQ(failureOf(ranks, 0).code(), ErrorCode::Aborted);
  expectNames(failureOf(ranks, 0), {"rank 0", "waiting for rank"});
  for (int r = 1; r < 3; ++r) {
    EXPECT_EQ(failureOf(ranks, r).code(), ErrorCode::PeerLost);
    expectNames(failureOf(ranks, r), {"operation 0", "rank 0 has given up"});
  }
  const Error told = awaitFailure(ranks, 3);
  EXPECT_EQ(told.code(), ErrorCode::PeerLost);
  EXPECT_EQ(std::string(told.what()), "rank 0 has given up");
  EXPECT_THROW(ranks.launch(3), Error);
}

// And the other is told.
TEST_P(RemoteFaults, NoWaitIsForEver) {
  auto late = options({0, 1});
  late.executor.deadlineNs = 30'000'000;
  DeviceRanks ranks(late);
  ranks.begin(ringCall(2, 300), Wire::Simple, 1);
  expectTimeout(ranks);
  expectNames(awaitFailure(ranks, 0), {"rank 1 has given up"});
}

// What is on its way to it goes on; nothing of it is written to its memory, which is gone.
TEST_P(RemoteFaults, ARankThatIsAbortedTakesBackWhereItReceives) {
  for (const int afterMs : {0, 1, 5}) {
    auto hurried = options({0, 1});
    hurried.executor.deadlineNs = 300'000'000;
    DeviceRanks ranks(hurried);
    ranks.begin(ringCall(2, 300'000), Wire::Simple, 1);
    ranks.launch(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(afterMs));
    ranks.executor(1).abort();
    ranks.destroy(1);
    ranks.wait(0);
    EXPECT_EQ(failureOf(ranks, 0).code(), ErrorCode::Timeout) << failureOf(ranks, 0).what();
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, RemoteFaults,
                         testing::Values(Way{"sim", false}, Way{"tcp", false}, Way{"ucx", false},
                                         Way{"sim", true}, Way{"ucx", true}));

/// A transport in which one rank's connection to another breaks when it is told to.
class Breaking final : public transports::Endpoint {
 public:
  Breaking(std::unique_ptr<transports::Endpoint> inner, const std::atomic<int>& lost)
      : inner_(std::move(inner)), lost_(lost) {}
  const char* name(int peer) const override { return inner_->name(peer); }
  const transports::RingLayout& layout() const override { return inner_->layout(); }
  transports::EndpointAddress address(int peer) override { return inner_->address(peer); }
  void connect(int peer, transports::EndpointAddress address) override {
    inner_->connect(peer, std::move(address));
  }
  transports::SendRing& sendRing(int peer, int channel) override {
    return inner_->sendRing(peer, channel);
  }
  transports::ReceiveRing& receiveRing(int peer, int channel) override {
    return inner_->receiveRing(peer, channel);
  }
  bool goDirect(int peer, int channel, const transports::DirectSlots& slots) override {
    return inner_->goDirect(peer, channel, slots);
  }
  bool progress() override {
    if (const int lost = lost_; lost >= 0 && !told_) {
      told_ = true;
      throw transports::ConnectionLost(lost, "its connection broke: a test cut it");
    }
    return inner_->progress();
  }
  void flush() override { inner_->flush(); }
  void drain(const std::function<bool()>& hasFailed) override { inner_->drain(hasFailed); }
  bool cancelZeroCopy() override { return inner_->cancelZeroCopy(); }

 private:
  const std::unique_ptr<transports::Endpoint> inner_;
  const std::atomic<int>& lost_;
  bool told_ = false;
};

/// Ranks 0 and 1 of host 0, 2 of host 1. Only rank 0 sees that its connection with rank 2 breaks.
class ABrokenConnection : public testing::Test {
 protected:
  RemoteNetwork network() {
    return [this](int ranks, const transports::RingLayout& layout) {
      auto all = badSimNetwork(1)(ranks, layout);
      all[0] = std::make_unique<Breaking>(std::move(all[0]), lost_);
      return all;
    };
  }
  std::atomic<int> lost_{-1};
};

TEST_F(ABrokenConnection, EndsALaunchOnAllRanks) {
  DeviceRanks ranks({.ranks = 3, .hosts = {0, 0, 1}, .network = network()});
  ranks.begin(ringCall(3, 9000), Wire::Simple, 1);
  ranks.launch(0);
  ranks.launch(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  lost_ = 2;
  ranks.wait(0);
  ranks.wait(1);
  EXPECT_EQ(failureOf(ranks, 0).code(), ErrorCode::PeerLost);
  expectNames(failureOf(ranks, 0), {"rank 0, operation 0", "after 0 bytes",
                                    "rank 2 was lost: its connection broke: a test cut it"});
  EXPECT_EQ(failureOf(ranks, 1).code(), ErrorCode::PeerLost);
  expectNames(failureOf(ranks, 1), {"rank 1, operation 0", "rank 0 has given up"});
}

TEST_F(ABrokenConnection, IsKnownBeforeTheNextLaunch) {
  DeviceRanks ranks({.ranks = 3, .hosts = {0, 0, 1}, .network = network()});
  ranks.begin(ringCall(3, 9000), Wire::Simple, 1);
  lost_ = 2;
  const Error error = awaitFailure(ranks, 0);
  EXPECT_EQ(error.code(), ErrorCode::PeerLost);
  expectNames(error, {"rank 2 was lost: its connection broke"});
  EXPECT_THROW(ranks.launch(0), Error);
}

/// One rank with a proxy, and the bare transport of the other.
class AHostilePeer : public testing::Test {
 protected:
  AHostilePeer() {
    auto remote = badSimNetwork(1)(2, executor::kernel::remoteLayout(layout_));
    for (int r = 0; r < 2; ++r) remote[r]->connect(1 - r, remote[1 - r]->address(r));
    peer_ = std::move(remote[1]);
    endpoint_.connectThroughHost(1);
    executor_ = std::make_unique<KernelExecutor>(endpoint_, residency_, KernelOptions{.blocks = 1},
                                                 std::move(remote[0]));
  }
  std::string failure() {
    for (const auto end = base::Deadline::after(kSoon); !end.passed(); peer_->progress())
      if (const auto failed = executor_->failure()) {
        EXPECT_EQ(failed->code(), ErrorCode::Refused);
        return failed->what();
      }
    return "nothing has failed";
  }

  const transports::p2p::P2pLayout layout_ = DeviceRanksOptions{}.layout;
  Residency residency_;
  DeviceEndpoint endpoint_{0, 0, 2, layout_};
  std::unique_ptr<transports::Endpoint> peer_;
  std::unique_ptr<KernelExecutor> executor_;
};

TEST_F(AHostilePeer, IsRefusedForAMessageThatNoKernelSends) {
  peer_->sendRing(0, 1).publish(1, 0, 3);
  EXPECT_EQ(failure(), "a message of 3 bytes from rank 1 cannot be what its kernel sent");
}

TEST_F(AHostilePeer, IsRefusedForANoticeThatNoRankSends) {
  peer_->sendRing(0, layout_.rings.channels).publish(1, 0, 0);
  EXPECT_EQ(failure(), "rank 1 sent a notice that no rank sends");
}

}  // namespace
}  // namespace tutti::tests
