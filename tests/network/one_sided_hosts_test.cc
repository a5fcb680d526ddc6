// One-sided calls between hosts: all sizes and ways, and what becomes of them when hosts and ranks
// go. Ranks are processes, hosts are namespaces of this machine on one switch.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <tutti/tutti.h>

#include "tests/communicator/transfers.h"
#include "tests/support/all_reduce_loop.h"
#include "tests/support/failure_report.h"
#include "tests/support/leftovers.h"
#include "tests/support/network_hosts.h"
#include "tests/support/outcome.h"
#include "tests/support/rank_processes.h"
#include "tests/support/text.h"
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
  std::optional<Window> window = c->window({buffer, ordinary.size()});
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

void putTo(Communicator& c, int peer, const Bytes& data, const Window& window) {
  c.put({.send = data.data(),
         .count = data.size(),
         .type = DataType::UInt8,
         .peer = peer,
         .window = &window});
}

/// Puts to the next rank, and waits for the one before, until that fails. Or does nothing else than
/// to wait.
int putUntilItFails(const Context& context, bool puts) {
  Communicator c = context.join({.timeout = 60s});
  const Bytes data(kBlock, 4);
  Bytes buffer(kBlock);
  const Window window = c.window({buffer.data(), buffer.size()});
  c.barrier();
  context.say("joined");
  reportFailure(context, [&] {
    while (true) {
      if (puts) putTo(c, (c.rank() + 1) % c.size(), data, window);
      waitFor(c, (c.rank() + c.size() - 1) % c.size());
    }
  });
  return 0;
}

TEST_F(OneSidedHosts, AKilledRankIsNamedByAll) {
  const NetworkHosts hosts(2);
  RankProcesses ranks(
      3, [](const Context& context) { return putUntilItFails(context, true); },
      [&](int rank) { hosts.enter(rank / 2); });
  for (int r = 0; r < 3; ++r) ASSERT_TRUE(ranks.awaitLine(r, "joined", 30s)) << ranks.output(r);
  std::this_thread::sleep_for(100ms);
  const int64_t killed = nowMs();
  ranks.signal(2, SIGKILL);
  for (const int r : {0, 1})
    expectReported(ranks, r, {"peer lost|rank 2 (pid "}, killed, kDeathNoticedMs);
}

// In two jobs at once: one whose ranks put, and one whose ranks do nothing but wait.
TEST_F(OneSidedHosts, ALostHostIsNamed) {
  const NetworkHosts hosts(2);
  const auto start = [&](bool puts) {
    return std::make_unique<RankProcesses>(
        2, [puts](const Context& context) { return putUntilItFails(context, puts); },
        [&](int rank) { hosts.enter(rank); });
  };
  const std::unique_ptr<RankProcesses> jobs[] = {start(true), start(false)};
  for (const auto& ranks : jobs)
    for (int r = 0; r < 2; ++r) ASSERT_TRUE(ranks->awaitLine(r, "joined", 30s)) << ranks->output(r);
  std::this_thread::sleep_for(100ms);
  const int64_t lost = nowMs();
  hosts.unplug(1);
  for (const auto& ranks : jobs) {
    expectReported(*ranks, 0, {"peer lost|", "rank 1 (pid "}, lost, kHostLossNoticedMs);
    expectReported(*ranks, 1, {"peer lost|", "rank 0 (pid "}, lost, kHostLossNoticedMs);
  }
}

// Row 3: for who puts more to it than the network holds, and for who waits for it.
TEST_F(OneSidedHosts, AStoppedRankIsAStragglerAndIsWaitedFor) {
  const NetworkHosts hosts(2);
  RankProcesses ranks(
      2,
      [](const Context& context) {
        setLogSink([&](LogLevel, std::string_view line) { context.say(std::string(line)); });
        const Bytes data = content(1, 30'000'000);
        Bytes buffer(data.size());
        {
          Communicator c = context.join({.timeout = 60s, .straggler = 300ms});
          const Window window = c.window({buffer.data(), buffer.size()});
          EXPECT_EQ(window.bytes(1 - c.rank()), buffer.size());
          c.barrier();
          context.say("joined");
          std::this_thread::sleep_for(300ms);
          putTo(c, 1 - c.rank(), data, window);
          waitFor(c, 1 - c.rank());
          c.barrier();
        }
        setLogSink({});
        return buffer == data ? 0 : 1;
      },
      [&](int rank) { hosts.enter(rank); });
  for (int r = 0; r < 2; ++r) ASSERT_TRUE(ranks.awaitLine(r, "joined", 30s)) << ranks.output(r);
  ranks.signal(1, SIGSTOP);
  std::this_thread::sleep_for(2s);
  ranks.signal(1, SIGCONT);
  ASSERT_TRUE(ranks.allSucceed(30s));
  const std::string out = ranks.output(0);
  EXPECT_TRUE(contains(out, "put of 30000000 bytes to rank 1 has waited ")) << out;
  EXPECT_TRUE(contains(out, "straggler: rank 1 (pid " + std::to_string(ranks.pid(1)))) << out;
  EXPECT_TRUE(contains(out, " on host n1)")) << out;
}

/// Both ranks make a window and do `body`, which fails; what they say, with their code first.
std::string failuresOf(const NetworkHosts& hosts, CommunicatorOptions options,
                       const std::function<void(Communicator&, const Window&)>& body) {
  RankProcesses ranks(
      3,
      [&](const Context& context) {
        Communicator c = context.join(options);
        const Outcome outcome = outcomeOf([&] {
          const Window window = c.window({});
          body(c, window);
        });
        context.say(std::string(toString(outcome.code)) + "|" + outcome.text);
        return 0;
      },
      [&](int rank) { hosts.enter(rank / 2); });
  EXPECT_TRUE(ranks.allSucceed(30s));
  return ranks.output(0) + ranks.output(1) + ranks.output(2);
}

int linesWith(const std::string& all, const std::string& words) {
  int lines = 0;
  for (size_t at = 0; (at = all.find(words, at)) != std::string::npos; ++at) ++lines;
  return lines;
}

// Row 2.
TEST_F(OneSidedHosts, AnAbortOnOneHostEndsTheWaitsOfAll) {
  const NetworkHosts hosts(2);
  const std::string all = failuresOf(hosts, {.timeout = 60s}, [](Communicator& c, const Window&) {
    c.barrier();
    if (c.rank() == 2) c.abort();
    waitFor(c, (c.rank() + 1) % 3);
  });
  EXPECT_EQ(linesWith(all, "aborted|"), 3) << all;
  EXPECT_EQ(linesWith(all, "abort() was called by rank 2 (pid "), 3) << all;
}

// Rows 4 and 5: ranks that say otherwise how large a buffer is cannot be; this is what they share.
TEST_F(OneSidedHosts, AMismatchOfSignalsIsNamedByAll) {
  const NetworkHosts hosts(2);
  RankProcesses ranks(
      2,
      [](const Context& context) {
        const Outcome outcome =
            outcomeOf([&] { context.join({.timeout = 60s, .signals = context.rank + 1}); });
        context.say(std::string(toString(outcome.code)) + "|" + outcome.text);
        return 0;
      },
      [&](int rank) { hosts.enter(rank); });
  EXPECT_TRUE(ranks.allSucceed(30s));
  const std::string all = ranks.output(0) + ranks.output(1);
  EXPECT_EQ(linesWith(all, "mismatch|ranks disagree about a communicator: "), 2) << all;
}

// Row 6: a rank that leaves, and one that never sends.
TEST_F(OneSidedHosts, ARankThatLeavesOrNeverSendsIsNamed) {
  const NetworkHosts hosts(2);
  std::string all = failuresOf(hosts, {.timeout = 60s}, [](Communicator& c, const Window&) {
    c.barrier();
    if (c.rank() != 2) waitFor(c, 2);
  });
  EXPECT_EQ(linesWith(all, "peer lost|"), 2) << all;
  EXPECT_GE(linesWith(all, "rank 2 (pid "), 2) << all;
  all = failuresOf(hosts, {.timeout = 700ms},
                   [](Communicator& c, const Window&) { waitFor(c, (c.rank() + 1) % 3); });
  EXPECT_EQ(linesWith(all, "timeout|"), 3) << all;
  EXPECT_EQ(linesWith(all, "did not complete within 700 ms; it waits for rank "), 3) << all;
}

}  // namespace
}  // namespace tutti::tests
