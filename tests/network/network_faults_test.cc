// Ranks of two hosts that are killed, stopped, cut off and disturbed, again and again, while data
// is under way. TUTTI_TEST_KILLS says how often.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <tutti/tutti.h>

#include "tests/support/all_reduce_loop.h"
#include "tests/support/leftovers.h"
#include "tests/support/network_hosts.h"
#include "tests/support/rank_processes.h"
#include "tests/support/with_network_hosts.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;

constexpr int kRanks = 4;

/// Each by itself: the first error ends the loop.
class NetworkFaults : public WithNetworkHosts {
 protected:
  std::mt19937_64 random_{testSeed()};
  void sleepUpTo(int ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(random_() % static_cast<uint64_t>(ms)));
  }
  static bool areUnderWay(RankProcesses& ranks) {
    for (int r = 0; r < kRanks; ++r)
      if (!ranks.awaitLine(r, "reduces", 30s)) return false;
    return true;
  }
};

/// AllReduces of changing sizes, each compared, until rank 0 has seen `forMs` pass.
int reduceFor(const Context& context, int forMs) {
  Communicator c = context.join({.timeout = 60s, .straggler = 30s});
  const int64_t end = nowMs() + forMs;
  std::vector<int> x(300'000), y(x.size());
  for (int round = 0;; ++round) {
    const size_t count = round % 3 == 0 ? 2 : round % 3 == 1 ? 5'000 : x.size();
    for (size_t i = 0; i < count; ++i) x[i] = static_cast<int>(i) + context.rank;
    // The first says whether rank 0 ends.
    x[0] = context.rank == 0 && nowMs() >= end ? 1 : 0;
    c.allReduce({.send = x.data(), .recv = y.data(), .count = count, .type = DataType::Int32});
    for (size_t i = 1; i < count; ++i)
      if (y[i] != static_cast<int>(i) * kRanks + kRanks * (kRanks - 1) / 2) {
        context.say("round " + std::to_string(round) + " is wrong at " + std::to_string(i));
        return 1;
      }
    if (round == 0) context.say("reduces");
    if (y[0] != 0) return 0;
  }
}

TEST_F(NetworkFaults, KilledRanksAreNamedByAll) {
  const NetworkHosts hosts(2);
  const int times = testKills(3);
  for (int i = 0; i < times; ++i) {
    RankProcesses ranks(
        kRanks, [](const Context& context) { return loopAllReduce(context, true); },
        [&](int rank) { hosts.enter(rank / 2); });
    ASSERT_TRUE(areUnderWay(ranks)) << i;
    sleepUpTo(30);
    const auto victim = static_cast<int>(random_() % kRanks);
    const int64_t killed = nowMs();
    ranks.signal(victim, SIGKILL);
    for (int r = 0; r < kRanks; ++r) {
      if (r == victim) continue;
      ASSERT_EQ(ranks.wait(r, 30s), 0) << i << ": " << ranks.output(r);
      const std::string out = ranks.output(r);
      ASSERT_NE(out.find("rank " + std::to_string(victim) + " (pid "), std::string::npos) << out;
      ASSERT_LE(endOfLoop(out) - killed, kDeathNoticedMs) << i << ": " << out;
      ASSERT_NE(out.find("goes on with 3"), std::string::npos) << out;
    }
  }
}

// Longer than it takes to notice a silent host.
TEST_F(NetworkFaults, StoppedRanksAreWaitedFor) {
  const NetworkHosts hosts(2);
  const int times = testKills(2);
  for (int i = 0; i < times; ++i) {
    RankProcesses ranks(
        kRanks, [](const Context& context) { return reduceFor(context, 500); },
        [&](int rank) { hosts.enter(rank / 2); });
    ASSERT_TRUE(areUnderWay(ranks)) << i;
    sleepUpTo(30);
    const auto victim = static_cast<int>(random_() % kRanks);
    ranks.signal(victim, SIGSTOP);
    std::this_thread::sleep_for(i % 4 == 0 ? 6s : 500ms);
    ranks.signal(victim, SIGCONT);
    for (int r = 0; r < kRanks; ++r)
      ASSERT_EQ(ranks.wait(r, 60s), 0) << i << ": rank " << r << ": " << ranks.output(r);
  }
}

TEST_F(NetworkFaults, PartitionsAreNamedOnBothSides) {
  const int times = testKills(2);
  for (int i = 0; i < times; ++i) {
    const NetworkHosts hosts(2);
    RankProcesses ranks(
        kRanks, [](const Context& context) { return loopAllReduce(context, true); },
        [&](int rank) { hosts.enter(rank / 2); });
    ASSERT_TRUE(areUnderWay(ranks)) << i;
    sleepUpTo(30);
    const int64_t cut = nowMs();
    hosts.unplug(1);
    for (int r = 0; r < kRanks; ++r) {
      ASSERT_EQ(ranks.wait(r, 40s), 0) << i << ": " << ranks.output(r);
      const std::string out = ranks.output(r);
      ASSERT_NE(out.find(r < 2 ? "on host n1" : "on host n0"), std::string::npos) << out;
      ASSERT_LE(endOfLoop(out) - cut, kHostLossNoticedMs) << i << ": " << out;
      ASSERT_NE(out.find("goes on with 2"), std::string::npos) << out;
    }
  }
}

// A switch that restarts a port: the job goes on, and its results are right.
TEST_F(NetworkFaults, FlapsEndNoJob) {
  const NetworkHosts hosts(2);
  const int times = testKills(3);
  for (int i = 0; i < times; ++i) {
    RankProcesses ranks(
        kRanks, [](const Context& context) { return reduceFor(context, 1500); },
        [&](int rank) { hosts.enter(rank / 2); });
    ASSERT_TRUE(areUnderWay(ranks)) << i;
    sleepUpTo(30);
    const auto host = static_cast<int>(random_() % 2);
    hosts.unplug(host);
    sleepUpTo(1500);
    hosts.plug(host);
    for (int r = 0; r < kRanks; ++r)
      ASSERT_EQ(ranks.wait(r, 60s), 0) << i << ": rank " << r << ": " << ranks.output(r);
  }
}

}  // namespace
}  // namespace tutti::tests
