// What is particular to the simulated network: its faults, its determinism, its scale.

#include "tests/support/sim/network.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include <tutti/error.h>
#include "tests/support/sim/endpoint.h"
#include "tests/transports/sim/fabrics.h"

namespace tutti::tests {
namespace {

using namespace transports::sim;
using transports::RingLayout;

const RingLayout kLayout{.channels = 1, .slotCount = 4, .slotBytes = 1024};

// Ranks of one network on virtual time.
struct World {
  World(int size, SimOptions options, RingLayout layout = kLayout) {
    options.drive = Drive::Virtual;
    network = std::make_shared<SimNetwork>(size, layout, options);
    for (int r = 0; r < size; ++r) endpoints.push_back(makeSimEndpoint(network, r));
  }
  // Only those that talk: connecting all with all is quadratic.
  void connect(int a, int b) {
    endpoints[size_t(a)]->connect(b, endpoints[size_t(b)]->address(a));
    endpoints[size_t(b)]->connect(a, endpoints[size_t(a)]->address(b));
  }
  std::vector<std::string> run(const std::function<Actors(int)>& actors) {
    Scenario s;
    s.size = network->size();
    s.layout = network->layout();
    s.actors = actors;
    return driveVirtual(*network, s, endpoints);
  }
  void expectRun(const std::function<Actors(int)>& actors) {
    const auto problems = run(actors);
    for (size_t r = 0; r < problems.size(); ++r)
      EXPECT_EQ(problems[r], "") << "rank " << r << "\n" << network->describe();
  }
  void settle() {
    while (network->advance()) {
    }
  }
  std::shared_ptr<SimNetwork> network;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
};

// 0 and 1 stream to each other.
std::function<Actors(int)> pairTraffic(uint64_t messages) {
  return [messages](int rank) {
    Actors actors;
    const auto sizes = oddSizes(3, kLayout.slotBytes);
    if (rank > 1) return actors;
    actors.push_back(sender({1 - rank, 0, messages, sizes, uint64_t(rank)}));
    actors.push_back(receiver({1 - rank, 0, messages, sizes, uint64_t(1 - rank)}));
    return actors;
  };
}

uint64_t tracedRun(World& world) {
  world.connect(0, 1);
  world.expectRun(pairTraffic(2000));
  world.settle();
  EXPECT_EQ(world.network->pendingEvents(), 0u);
  return world.network->traceHash();
}

TEST(SimFaults, EachAloneAndAllTogether) {
  for (const uint64_t seed : {1, 2, 3, 4, 5})
    for (const int faults : {0, 1, 2, 3, 4, 7}) {
      SimOptions options;
      options.seed = seed;
      options.loss = faults & 1 || faults == 3 ? 0.3 : 0;
      options.reorder = faults & 2 ? 0.5 : 0;
      options.duplicate = faults & 4 ? 0.5 : 0;
      World world(2, options);
      world.connect(0, 1);
      world.expectRun(pairTraffic(1000));
      const SimNetwork& n = *world.network;
      // The faults did happen, in about the asked share of the packets.
      const auto share = [&](Happening what) {
        return double(n.count(what)) /
               double(n.count(Happening::Send) + n.count(Happening::Resend) +
                      n.count(Happening::Duplicate));
      };
      // 3 standard deviations of a share of 1/2 of 4000 packets are 0.024.
      EXPECT_NEAR(share(Happening::Lose), options.loss, 0.03) << n.describe();
      EXPECT_NEAR(share(Happening::Delay), options.reorder * (1 - options.loss), 0.03);
      EXPECT_EQ(n.count(Happening::Duplicate) > 0, options.duplicate > 0);
      // What is only doubled or late within the patience is not sent again.
      EXPECT_EQ(n.count(Happening::Resend) > 0, options.loss > 0) << n.describe();
    }
}

TEST(SimFaults, NineOfTenPacketsLost) {
  SimOptions options;
  options.loss = 0.9;
  options.reorder = 0.5;
  options.duplicate = 0.5;
  World world(2, options);
  world.connect(0, 1);
  world.expectRun(pairTraffic(200));
}

TEST(SimDeterminism, TheSameSeedGivesTheSameRun) {
  SimOptions options;
  options.loss = 0.2;
  options.reorder = 0.2;
  options.duplicate = 0.2;
  std::set<uint64_t> hashes;
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    options.seed = seed;
    // Both exist at once, so that nothing can depend on where they lie in memory.
    World one(2, options), other(2, options);
    const uint64_t first = tracedRun(one);
    EXPECT_EQ(tracedRun(other), first) << "seed " << seed;
    hashes.insert(first);
  }
  EXPECT_EQ(hashes.size(), 6u);  // and another seed another one
}

TEST(SimTime, LatencyAndBandwidthAreKept) {
  SimOptions options;
  options.minLatencyNs = options.maxLatencyNs = 10'000;
  options.bytesPerSecond = 1'000'000'000;
  World world(2, options);
  world.connect(0, 1);
  const base::Clock& clock = world.network->clock();
  EXPECT_EQ(clock.nowNs(), 0);
  auto& send = world.endpoints[0]->sendRing(1, 0);
  auto& receive = world.endpoints[1]->receiveRing(0, 0);
  for (int i = 0; i < 2; ++i) send.publish(0, 0, 936);  // and 64 bytes of the packet's own
  while (!receive.ready()) ASSERT_TRUE(world.network->advance());
  EXPECT_EQ(clock.nowNs(), 10'000 + 1000);
  receive.release();
  while (!receive.ready()) ASSERT_TRUE(world.network->advance());
  EXPECT_EQ(clock.nowNs(), 10'000 + 2000);
}

TEST(SimTime, NothingHappensWhenNothingIsUnderWay) {
  World world(3, {});
  world.connect(0, 1);
  EXPECT_FALSE(world.network->advance());
  world.expectRun(pairTraffic(10));
  world.settle();
  EXPECT_FALSE(world.network->advance());
  EXPECT_EQ(world.network->pendingEvents(), 0u);
}

TEST(SimTime, APublicationIsNotOverlookedBeforeAJumpInTime) {
  SimOptions options;
  options.deaths = {{.rank = 2, .atNs = 1'000'000'000}};
  World world(3, options);
  world.connect(0, 1);
  world.endpoints[0]->sendRing(1, 0).publish(0, 0, 0);  // and nobody calls progress()
  auto& receive = world.endpoints[1]->receiveRing(0, 0);
  while (!receive.ready()) ASSERT_TRUE(world.network->advance());
  EXPECT_LT(world.network->clock().nowNs(), 1'000'000);
}

TEST(SimMemory, AReaderThatSleepsCostsNothingMore) {
  SimOptions options;
  options.loss = 0.3;
  World world(2, options);
  world.connect(0, 1);
  auto& send = world.endpoints[0]->sendRing(1, 0);
  while (send.ready()) send.publish(0, 0, 1024);
  // All is confirmed in the end, although nobody reads, and then the network is silent.
  int64_t events = 0;
  while (world.network->advance()) ASSERT_LT(++events, 100'000);
  EXPECT_EQ(world.network->pendingEvents(), 0u);
  EXPECT_EQ(send.inFlight(), kLayout.slotCount);
}

TEST(SimDeath, AtATime) {
  SimOptions options;
  options.deaths = {{.rank = 1, .atNs = 200'000}};
  World world(3, options);
  world.connect(0, 1);
  std::vector<int> dead;
  world.network->onDeath([&](int rank) {
    dead.push_back(rank);
    EXPECT_FALSE(world.network->alive(rank));  // the lock is not held
  });
  const auto problems = world.run(pairTraffic(1'000'000));
  EXPECT_EQ(dead, std::vector<int>{1});
  EXPECT_NE(problems[0].find("stands still"), std::string::npos) << problems[0];
  EXPECT_FALSE(world.network->alive(1));
  EXPECT_TRUE(world.network->alive(0));
  // The link to the dead one is silent: no timers, no growth.
  EXPECT_EQ(world.network->pendingEvents(), 0u);
  EXPECT_FALSE(world.network->advance());
}

TEST(SimDeath, AfterSoManyPackets) {
  for (const int64_t packets : {0, 1, 2, 17}) {
    SimOptions options;
    options.deaths = {{.rank = 0, .afterPackets = packets}};
    World world(2, options);
    world.connect(0, 1);
    std::vector<int> dead;
    world.network->onDeath([&](int rank) { dead.push_back(rank); });
    uint64_t arrived = 0;
    auto& send = world.endpoints[0]->sendRing(1, 0);
    auto& receive = world.endpoints[1]->receiveRing(0, 0);
    bool moving = true;
    for (int i = 0; moving; ++i) {
      ASSERT_LT(i, 100'000);
      if (send.ready()) send.publish(0, 0, 8);
      for (; receive.ready(); ++arrived) receive.release();
      for (auto& e : world.endpoints) e->progress();
      moving = world.network->advance();
    }
    EXPECT_EQ(dead, std::vector<int>{0});
    // Its packets are data and confirmations of credits.
    EXPECT_LE(arrived, uint64_t(packets));
    EXPECT_EQ(arrived > 0, packets > 0);
    EXPECT_EQ(world.network->pendingEvents(), 0u);
  }
}

TEST(SimDeath, WhatItSentBeforeStillArrivesAndWhatIsSentToItVanishes) {
  World world(2, {});
  world.connect(0, 1);
  world.endpoints[0]->sendRing(1, 0).publish(0, 0, 8);
  world.network->kill(0);
  world.network->kill(0);  // once is enough
  EXPECT_EQ(world.network->count(Happening::Die), 1u);
  world.settle();
  EXPECT_TRUE(world.endpoints[1]->receiveRing(0, 0).ready());
  world.endpoints[1]->sendRing(0, 0).publish(0, 0, 8);
  world.settle();
  EXPECT_FALSE(world.endpoints[0]->receiveRing(1, 0).ready());
  EXPECT_EQ(world.network->pendingEvents(), 0u);
}

TEST(SimDeath, IsReportedOnceByThreads) {
  SimOptions options;
  options.deaths = {{.rank = 2, .atNs = 1'000'000}};
  auto network = std::make_shared<SimNetwork>(3, kLayout, options);
  std::atomic<int> deaths{0};
  network->onDeath([&](int rank) {
    EXPECT_EQ(rank, 2);
    ++deaths;
  });
  std::vector<std::thread> threads;
  const auto deadline = base::Deadline::after(std::chrono::seconds(30));
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      while (network->alive(2) && !deadline.passed()) {
        network->progress(r);
        std::this_thread::yield();
      }
    });
  for (auto& t : threads) t.join();
  network->progress(0);
  EXPECT_EQ(deaths, 1);
}

// Each rank sends to its right neighbour what it got from its left one.
std::function<Actors(int)> ringTraffic(int size, uint64_t messages) {
  return [=](int rank) {
    Actors actors;
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    const auto sizes = oddSizes(9, 512);
    actors.push_back(sender({right, 0, messages, sizes, uint64_t(rank)}));
    actors.push_back(receiver({left, 0, messages, sizes, uint64_t(left)}));
    return actors;
  };
}

TEST(SimScale, AThousandRanksInARing) {
  constexpr int kRanks = 1024;
  SimOptions options;
  options.loss = 0.05;
  options.reorder = 0.1;
  options.stepNs = 500;
  World world(kRanks, options, chooseLayout(kRanks, 1));
  for (int r = 0; r < kRanks; ++r) world.connect(r, (r + 1) % kRanks);
  world.expectRun(ringTraffic(kRanks, 20));
  EXPECT_EQ(world.network->linkCount(), size_t(kRanks));  // only those that were used
}

TEST(SimScale, AThousandRanksAsThreads) {
  constexpr int kRanks = 1024;
  SimOptions options;
  options.drive = Drive::Threads;
  options.loss = 0.05;
  auto network = std::make_shared<SimNetwork>(kRanks, chooseLayout(kRanks, 1), options);
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (int r = 0; r < kRanks; ++r) endpoints.push_back(makeSimEndpoint(network, r));
  for (int r = 0; r < kRanks; ++r)
    for (int peer : {(r + 1) % kRanks, (r + kRanks - 1) % kRanks})
      endpoints[size_t(r)]->connect(peer, endpoints[size_t(peer)]->address(r));
  Scenario s;
  s.size = kRanks;
  s.actors = ringTraffic(kRanks, 10);
  const auto problems = driveThreads(s, std::move(endpoints), [](int) {});
  for (int r = 0; r < kRanks; ++r) EXPECT_EQ(problems[size_t(r)], "") << network->describe();
}

TEST(SimSetup, AnAddressFromAnotherNetworkIsRefused) {
  World a(2, {}), b(2, {});
  try {
    a.endpoints[0]->connect(1, b.endpoints[1]->address(0));
    FAIL() << "it was accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::Refused) << e.what();
  }
}

TEST(SimOptionsTest, ImpossibleOnesAreRefused) {
  const auto make = [](SimOptions options) { SimNetwork(2, kLayout, options); };
  EXPECT_THROW(make({.loss = 1}), Error);
  EXPECT_THROW(make({.loss = -0.1}), Error);
  EXPECT_THROW(make({.reorder = 2}), Error);
  EXPECT_THROW(make({.minLatencyNs = 5, .maxLatencyNs = 4}), Error);
  EXPECT_THROW(make({.minLatencyNs = -1}), Error);
  EXPECT_THROW(make({.deaths = {{.rank = 2}}}), Error);
  EXPECT_THROW(SimNetwork(0, kLayout, {}), Error);
  EXPECT_THROW(SimNetwork(2, {.slotCount = 3}, {}), Error);
  SimNetwork threads(2, kLayout, {.drive = Drive::Threads});
  EXPECT_THROW(threads.advance(), Error);
}

}  // namespace
}  // namespace tutti::tests
