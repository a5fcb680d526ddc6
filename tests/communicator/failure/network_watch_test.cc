// When the network of the data counts as cut: by a clock of the test's, and probes that it answers.

#include "src/communicator/failure/network_watch.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include <tutti/error.h>

namespace tutti::tests {
namespace {

using communicator::NetworkWatch;
using transports::ReachabilityProbe;
using enum ReachabilityProbe::Finding;

constexpr int64_t kMs = 1'000'000;

/// What probes of peers find, and how many there have been.
struct World {
  ReachabilityProbe::Finding finding = Silence;
  int probes = 0, there = 0;
  bool areProbed = true, hasDescriptors = true;
};

class FakeProbe final : public ReachabilityProbe {
 public:
  explicit FakeProbe(World& world) : world_(world) { ++world_.there; }
  ~FakeProbe() override { --world_.there; }
  Finding look() override { return world_.finding; }
  bool heard() const override { return world_.finding == Host || world_.finding == Peer; }
  std::string describe() const override { return "10.0.0.2:4711"; }

 private:
  World& world_;
};

class FakeEndpoint final : public transports::Endpoint {
 public:
  explicit FakeEndpoint(World& world) : world_(world) {}
  std::unique_ptr<ReachabilityProbe> probe(int peer, ReachabilityProbe::Scope places) override {
    EXPECT_EQ(places, ReachabilityProbe::Scope::Used);
    if (!world_.areProbed || peer != 3) return nullptr;
    if (!world_.hasDescriptors) throw Error(ErrorCode::System, "no descriptor is left");
    ++world_.probes;
    return std::make_unique<FakeProbe>(world_);
  }
  const char* name(int) const override { return "fake"; }
  const transports::RingLayout& layout() const override { return layout_; }
  transports::EndpointAddress address(int) override { return {}; }
  void connect(int, transports::EndpointAddress) override {}
  transports::SendRing& sendRing(int, int) override { return send_; }
  transports::ReceiveRing& receiveRing(int, int) override { return receive_; }
  bool goDirect(int, int, const transports::DirectSlots&) override { return false; }
  bool progress() override { return false; }
  void flush() override {}
  void drain(const std::function<bool()>&) override {}
  bool cancelZeroCopy() override { return true; }

 private:
  World& world_;
  transports::RingLayout layout_;
  transports::SendRing send_;
  transports::ReceiveRing receive_;
};

class NetworkWatching : public testing::Test {
 protected:
  /// Looks every 50 ms for so long, of these peers one after the other; when it was found cut, in
  /// ms since the test's begin, or -1.
  int64_t lookFor(int64_t ms, const std::vector<int>& peers = {3}, uint64_t operation = 7) {
    for (const int64_t end = nowMs_ + ms; nowMs_ < end; nowMs_ += 50) {
      const int peer = peers[static_cast<size_t>(nowMs_ / 50) % peers.size()];
      const std::span<const int> now(&peer, peer >= 0 ? 1 : 0);
      if (const auto cut = watch_.look(endpoint_, operation, now, nowMs_ * kMs)) {
        EXPECT_EQ(cut->where, "10.0.0.2:4711");
        EXPECT_EQ(cut->peer, 3);
        return nowMs_;
      }
    }
    return -1;
  }
  World world_;
  FakeEndpoint endpoint_{world_};
  NetworkWatch watch_;
  int64_t nowMs_ = 0;
};

TEST_F(NetworkWatching, SilenceForThreeSecondsIsACut) {
  EXPECT_EQ(lookFor(20'000), 4000);
  EXPECT_EQ(world_.probes, 6);  // every half second, for any may be lost
}

// Where a network may be away for longer.
TEST_F(NetworkWatching, SilenceIsNoCutBeforeItsTime) {
  watch_ = NetworkWatch(8000);
  EXPECT_EQ(lookFor(20'000), 9000);
  const int64_t begin = nowMs_;
  watch_ = NetworkWatch(100);
  EXPECT_EQ(lookFor(20'000, {3}, 8) - begin, 4000);
}

TEST_F(NetworkWatching, WhereNoWayLeadsIsACut) {
  world_.finding = Unreachable;
  EXPECT_EQ(lookFor(20'000), 4000);
}

// As where a router refuses.
TEST_F(NetworkWatching, WhereSomebodyElseAnswersIsACut) {
  world_.finding = Elsewhere;
  EXPECT_EQ(lookFor(20'000), 4000);
  EXPECT_EQ(world_.probes, 6);
}

TEST_F(NetworkWatching, WhereTheHostAnswersIsNone) {
  for (const auto finding : {Host, Peer}) {
    world_.finding = finding;
    EXPECT_EQ(lookFor(10'000, {3}, static_cast<uint64_t>(finding)), -1);
  }
  EXPECT_GE(world_.probes, 3);
}

// Who names the dead is asked first; and where nobody has, it is a cut after all.
TEST_F(NetworkWatching, AStoppedProcessThatDiesIsNotCutOffAtOnce) {
  world_.finding = Host;
  EXPECT_EQ(lookFor(60'000), -1);
  world_.finding = Elsewhere;
  EXPECT_EQ(lookFor(20'000), 60'000 + 3500);
}

// A stopped process's kernel has a short queue: one probe stays, and tells when it is not answered
// any more.
TEST_F(NetworkWatching, AStoppedProcessIsProbedOnce) {
  world_.finding = Host;
  EXPECT_EQ(lookFor(3'600'000), -1);
  EXPECT_EQ(world_.probes, 1);
  world_.finding = Unreachable;
  EXPECT_EQ(lookFor(20'000), 3'600'000);
}

TEST_F(NetworkWatching, AProcessThatWasStoppedIsAskedAgain) {
  world_.finding = Host;
  EXPECT_EQ(lookFor(60'000), -1);
  world_.finding = Peer;
  EXPECT_EQ(lookFor(60'000), -1);
  EXPECT_GT(world_.probes, 50);
  world_.finding = Silence;
  EXPECT_LE(lookFor(20'000), 124'100);
  EXPECT_GT(nowMs_, 123'000);
}

TEST_F(NetworkWatching, ACutIsNoticedInTimeHoweverLongItHasAnswered) {
  world_.finding = Peer;
  EXPECT_EQ(lookFor(600'000), -1);
  EXPECT_GT(world_.probes, 500);
  world_.finding = Silence;
  EXPECT_LE(lookFor(20'000), 604'100);
  EXPECT_GT(nowMs_, 603'000);
}

TEST_F(NetworkWatching, OthersMayBeWaitedForInTurns) {
  EXPECT_EQ(lookFor(20'000, {1, 2, 3, 4}), 100 + 4000);
}

TEST_F(NetworkWatching, ManyMayBeWaitedForAtOnce) {
  const std::vector<int> all{1, 2, 3, 4};
  for (; nowMs_ < 4000; nowMs_ += 50) ASSERT_FALSE(watch_.look(endpoint_, 7, all, nowMs_ * kMs));
  const auto cut = watch_.look(endpoint_, 7, all, nowMs_ * kMs);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->peer, 3);
}

TEST_F(NetworkWatching, AnotherOperationBeginsAnew) {
  EXPECT_EQ(lookFor(3900), -1);
  EXPECT_GT(world_.there, 0);
  EXPECT_EQ(lookFor(3900, {3}, 8), -1);
  EXPECT_GT(world_.there, 0);
  EXPECT_EQ(lookFor(3900, {-1}, 9), -1);  // for nobody
  EXPECT_EQ(world_.there, 0);
}

// As where this process was stopped itself.
TEST_F(NetworkWatching, WhatWasLongAgoIsForgotten) {
  EXPECT_EQ(lookFor(2'000), -1);
  nowMs_ += 60'000;
  EXPECT_EQ(lookFor(3'900), -1);
}

TEST_F(NetworkWatching, WhatCannotBeAskedIsNotCut) {
  world_.areProbed = false;
  EXPECT_EQ(lookFor(20'000), -1);
  world_.areProbed = true;
  world_.hasDescriptors = false;
  EXPECT_EQ(lookFor(20'000), -1);
  EXPECT_EQ(world_.probes, 0);
}

}  // namespace
}  // namespace tutti::tests
