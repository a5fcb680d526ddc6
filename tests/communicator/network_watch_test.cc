// When the network of the data counts as cut: by a clock of the test's, and visits that it answers.

#include "src/communicator/network_watch.h"

#include <gtest/gtest.h>

#include <tutti/error.h>

namespace tutti::tests {
namespace {

using communicator::NetworkWatch;
using transports::Visit;
using enum Visit::Finding;

constexpr int64_t kMs = 1'000'000;

/// What visits of peers find, and how many there have been.
struct World {
  Visit::Finding finding = Silence;
  int visits = 0, there = 0;
  bool areVisited = true, hasDescriptors = true;
};

class FakeVisit final : public Visit {
 public:
  explicit FakeVisit(World& world) : world_(world) { ++world_.there; }
  ~FakeVisit() override { --world_.there; }
  Finding look() override { return world_.finding; }
  std::string describe() const override { return "10.0.0.2:4711"; }

 private:
  World& world_;
};

class FakeEndpoint final : public transports::Endpoint {
 public:
  explicit FakeEndpoint(World& world) : world_(world) {}
  std::unique_ptr<Visit> visit(int peer) override {
    EXPECT_EQ(peer, 3);
    if (!world_.areVisited) return nullptr;
    if (!world_.hasDescriptors) throw Error(ErrorCode::System, "no descriptor is left");
    ++world_.visits;
    return std::make_unique<FakeVisit>(world_);
  }
  const char* name(int) const override { return "fake"; }
  const transports::RingLayout& layout() const override { return layout_; }
  transports::Address address(int) override { return {}; }
  void connect(int, transports::Address) override {}
  transports::SendRing& sendRing(int, int) override { return send_; }
  transports::ReceiveRing& receiveRing(int, int) override { return receive_; }
  bool goDirect(int, int, const transports::DirectSlots&) override { return false; }
  bool progress() override { return false; }
  void flush() override {}
  void drain() override {}
  bool recall() override { return true; }

 private:
  World& world_;
  transports::RingLayout layout_;
  transports::SendRing send_;
  transports::ReceiveRing receive_;
};

constexpr NetworkWatch::Wait kWait{.operation = 7, .peer = 3, .bytesReceived = 100};

class NetworkWatching : public testing::Test {
 protected:
  /// Looks every 50 ms for so long; when it was found cut, in ms since the test's begin, or -1.
  int64_t lookFor(int64_t ms, const NetworkWatch::Wait& wait) {
    for (const int64_t end = nowMs_ + ms; nowMs_ < end; nowMs_ += 50)
      if (const auto cut = watch_.look(endpoint_, wait, nowMs_ * kMs)) {
        EXPECT_EQ(*cut, "10.0.0.2:4711");
        return nowMs_;
      }
    return -1;
  }
  World world_;
  FakeEndpoint endpoint_{world_};
  NetworkWatch watch_;
  int64_t nowMs_ = 0;
};

TEST_F(NetworkWatching, SilenceForThreeSecondsIsACut) {
  EXPECT_EQ(lookFor(20'000, kWait), 4000);
  EXPECT_EQ(world_.visits, 6);  // every half second, for any may be lost
}

TEST_F(NetworkWatching, WhereNoWayLeadsIsACut) {
  world_.finding = Unreachable;
  EXPECT_EQ(lookFor(20'000, kWait), 4000);
}

TEST_F(NetworkWatching, WhoeverAnswersTheNetworkIsThere) {
  for (const auto finding : {Host, Peer, Elsewhere}) {
    world_.finding = finding;
    EXPECT_EQ(lookFor(10'000, {.operation = static_cast<uint64_t>(finding), .peer = 3}), -1);
  }
  EXPECT_GT(world_.visits, 3 * 3);
}

// The longer it has answered the more rarely it is asked, so that a stopped process's queue lasts.
TEST_F(NetworkWatching, IsAskedMoreRarelyTheLongerItWaits) {
  world_.finding = Host;
  EXPECT_EQ(lookFor(3'600'000, kWait), -1);
  EXPECT_GT(world_.visits, 20);
  EXPECT_LT(world_.visits, 100);
  world_.finding = Silence;
  EXPECT_GT(lookFor(3'600'000, kWait), 3'600'000);
}

TEST_F(NetworkWatching, ACutIsNoticedInTimeWhileThingsMoveNow) {
  world_.finding = Host;
  NetworkWatch::Wait wait = kWait;
  for (int i = 0; i < 100; ++i) {
    ++wait.bytesReceived;
    EXPECT_EQ(lookFor(900, wait), -1);
  }
  EXPECT_EQ(world_.visits, 0);
  world_.finding = Silence;
  const int64_t begin = nowMs_;
  ++wait.bytesReceived;
  EXPECT_EQ(lookFor(20'000, wait) - begin, 4000);
}

TEST_F(NetworkWatching, AnotherWaitBeginsAnew) {
  EXPECT_EQ(lookFor(3900, kWait), -1);
  EXPECT_GT(world_.there, 0);
  NetworkWatch::Wait next = kWait;
  ++next.operation;
  EXPECT_EQ(lookFor(3900, next), -1);
  EXPECT_EQ(lookFor(3900, {.operation = 9}), -1);  // for nobody
  EXPECT_EQ(world_.there, 0);
}

TEST_F(NetworkWatching, WhatCannotBeAskedIsNotCut) {
  world_.areVisited = false;
  EXPECT_EQ(lookFor(20'000, kWait), -1);
  world_.areVisited = true;
  world_.hasDescriptors = false;
  EXPECT_EQ(lookFor(20'000, kWait), -1);
  EXPECT_EQ(world_.visits, 0);
}

}  // namespace
}  // namespace tutti::tests
