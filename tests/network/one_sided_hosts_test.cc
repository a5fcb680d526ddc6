// One-sided calls between hosts: all sizes and ways, and what becomes of them when hosts and ranks
// go. Ranks are processes, hosts are namespaces of this machine on one switch.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#include <tutti/tutti.h>

#include "tests/communicator/transfers.h"
#include "tests/support/all_reduce_loop.h"
#include "tests/support/leftovers.h"
#include "tests/support/network_hosts.h"
#include "tests/support/outcome.h"
#include "tests/support/rank_processes.h"
#include "tests/support/with_network_hosts.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;
using OneSidedHosts = WithNetworkHosts;

constexpr size_t kBlock = 300'000;

void waitFor(Communicator& c, int peer) {
  const AwaitedSignals one{.peer = peer};
  c.waitSignals({.signals = {&one, 1}});
}

uint64_t numberOf(int from, int to, int round) {
  return static_cast<uint64_t>(from * 10 + to + 100 * round);
}

/// Every rank puts to every rank, and sees what all have put when their signals are there.
int exchange(const Context& context, bool shared, bool leaves) {
  auto* const c = new Communicator(context.join({.timeout = 30s}));
  std::vector<uint8_t> ordinary(kBlock * static_cast<size_t>(c->size()));
  const Memory memory = shared ? c->allocate(ordinary.size()) : Memory();
  auto* const buffer = shared ? memory.as<uint8_t>() : ordinary.data();
  std::optional<Window> window = c->window(buffer, ordinary.size());
  for (int round = 0; const size_t bytes : {size_t{0}, size_t{1}, size_t{40}, kBlock}) {
    ++round;
    for (int peer = 0; peer < c->size(); ++peer) {
      const Bytes data = content(numberOf(c->rank(), peer, round), bytes);
      c->put({.send = data.data(),
              .count = bytes,
              .type = DataType::UInt8,
              .peer = peer,
              .window = &*window,
              .offset = kBlock * static_cast<size_t>(c->rank())});
    }
    for (int peer = 0; peer < c->size(); ++peer) {
      waitFor(*c, peer);
      const Bytes expected = content(numberOf(peer, c->rank(), round), bytes);
      if (!std::equal(expected.begin(), expected.end(),
                      buffer + kBlock * static_cast<size_t>(peer)))
        return 1;
    }
    c->barrier();
  }
  if (!leaves) std::exit(0);  // with all there still
  window.reset();
  delete c;
  return 0;
}

TEST_F(OneSidedHosts, EveryRankPutsToEveryRank) {
  for (const std::vector<int>& placement : {std::vector{0, 1}, {0, 0, 1, 1}, {0, 1, 2}}) {
    const NetworkHosts hosts(placement.back() + 1);
    for (const bool shared : {false, true}) {
      RankProcesses ranks(
          static_cast<int>(placement.size()),
          [=](const Context& context) { return exchange(context, shared, true); },
          [&](int rank) { hosts.enter(placement[static_cast<size_t>(rank)]); });
      EXPECT_TRUE(ranks.allSucceed(60s));
    }
  }
}

TEST_F(OneSidedHosts, AProgramMayEndWithItsWindows) {
  const NetworkHosts hosts(2);
  for (int repeat = 0; repeat < 5; ++repeat) {
    RankProcesses ranks(
        2, [](const Context& context) { return exchange(context, false, false); },
        [&](int rank) { hosts.enter(rank); });
    EXPECT_TRUE(ranks.allSucceed(60s));
  }
}

/// Puts to the next rank, and waits for the one before, until that fails.
int putUntilItFails(const Context& context) {
  Communicator c = context.join({.timeout = 60s});
  std::vector<uint8_t> buffer(kBlock), data(kBlock, 4);
  const Window window = c.window(buffer.data(), buffer.size());
  c.barrier();
  context.say("joined");
  const Outcome outcome = outcomeOf([&] {
    while (true) {
      c.put({.send = data.data(),
             .count = kBlock,
             .type = DataType::UInt8,
             .peer = (c.rank() + 1) % c.size(),
             .window = &window});
      waitFor(c, (c.rank() + c.size() - 1) % c.size());
    }
  });
  context.say("failed-at " + std::to_string(nowMs()));
  context.say(std::string(toString(outcome.code)) + "|" + outcome.text);
  return 0;
}

void expectNamed(RankProcesses& ranks, int rank, const std::string& name, int64_t since,
                 int64_t withinMs) {
  ASSERT_EQ(ranks.wait(rank, 20s), 0) << ranks.output(rank);
  const std::string out = ranks.output(rank);
  EXPECT_NE(out.find("peer lost|"), std::string::npos) << out;
  EXPECT_NE(out.find(name), std::string::npos) << out;
  const auto at = out.find("failed-at ");
  ASSERT_NE(at, std::string::npos) << out;
  EXPECT_LE(std::stoll(out.substr(at + 10)) - since, withinMs) << out;
}

TEST_F(OneSidedHosts, AKilledRankIsNamedByAll) {
  const NetworkHosts hosts(2);
  RankProcesses ranks(3, putUntilItFails, [&](int rank) { hosts.enter(rank / 2); });
  for (int r = 0; r < 3; ++r) ASSERT_TRUE(ranks.awaitLine(r, "joined", 30s)) << ranks.output(r);
  std::this_thread::sleep_for(100ms);
  const int64_t killed = nowMs();
  ranks.signal(2, SIGKILL);
  for (const int r : {0, 1}) expectNamed(ranks, r, "rank 2 (pid ", killed, kDeathNoticedMs);
}

TEST_F(OneSidedHosts, ALostHostIsNamed) {
  const NetworkHosts hosts(2);
  RankProcesses ranks(2, putUntilItFails, [&](int rank) { hosts.enter(rank); });
  for (int r = 0; r < 2; ++r) ASSERT_TRUE(ranks.awaitLine(r, "joined", 30s)) << ranks.output(r);
  std::this_thread::sleep_for(100ms);
  const int64_t lost = nowMs();
  hosts.unplug(1);
  expectNamed(ranks, 0, "rank 1 (pid ", lost, kHostLossNoticedMs);
  expectNamed(ranks, 1, "rank 0 (pid ", lost, kHostLossNoticedMs);
}

}  // namespace
}  // namespace tutti::tests
