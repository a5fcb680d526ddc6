// Ranks that end without destroying their communicator. An orderly end is told: what was sent
// arrives, and a call that needs more of the rank learns that it has left. Any other end is a
// death. Every rank is a process that ends as programs do.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include <tutti/tutti.h>

#include "src/base/at_exit.h"
#include "tests/support/child_processes.h"
#include "tests/support/outcome.h"
#include "tests/support/rank_processes.h"
#include "tests/support/text.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;

/// The rank's only one, which nobody destroys.
Communicator& joinForEver(const Context& context) { return *new Communicator(context.join()); }

/// As programs end, with what was expected of the rank.
[[noreturn]] void leave() { std::exit(testing::Test::HasFailure() ? 96 : 0); }

std::vector<float> counting(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

void send(Communicator& c, const std::vector<float>& values, int peer) {
  c.send({.send = values.data(), .count = values.size(), .peer = peer});
}

Outcome receive(Communicator& c, std::vector<float>& values, int peer) {
  return outcomeOf(
      [&] { c.receive({.recv = values.data(), .count = values.size(), .peer = peer}); });
}

void barrierForEver(Communicator& c) {
  while (true) c.barrier();
}

void expectLeft(const Outcome& outcome, int rank) {
  EXPECT_EQ(outcome.code, ErrorCode::PeerLost) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "rank " + std::to_string(rank) + " (pid ")) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, " left")) << outcome.text;
}

/// A later receive needs the rank that has left.
void takeFromLeaver(const Context& context, size_t count, std::chrono::milliseconds late) {
  Communicator& c = joinForEver(context);
  std::this_thread::sleep_for(late);
  std::vector<float> values(count);
  EXPECT_EQ(receive(c, values, 0).text, "no error");
  EXPECT_EQ(values, counting(count));
  expectLeft(receive(c, values, 0), 0);
}

TEST(Exit, WhatWasSentArrives) {
  for (const size_t count : {1, 1000, 1'000'000})
    for (const auto late : {0ms, 300ms})
      for (int round = 0; round < 3; ++round) {
        RankProcesses ranks(2, [&](const Context& context) {
          if (context.rank == 1) takeFromLeaver(context, count, late);
          if (context.rank == 0) send(joinForEver(context), counting(count), 1);
          leave();
          return 0;
        });
        ASSERT_TRUE(ranks.allSucceed(20s)) << count << " floats, " << late.count() << " ms late";
      }
}

TEST(Exit, EndsNobodysCollectives) {
  for (int round = 0; round < 15; ++round) {
    RankProcesses ranks(4, [](const Context& context) {
      Communicator& c = joinForEver(context);
      int sum = 1;
      c.allReduce({.send = &sum, .recv = &sum, .count = 1, .type = DataType::Int32});
      EXPECT_EQ(sum, 4);
      leave();
      return 0;
    });
    ASSERT_TRUE(ranks.allSucceed(20s));
  }
}

TEST(Exit, OfARankIsNamedInTheCallsThatNeedIt) {
  RankProcesses ranks(3, [](const Context& context) {
    Communicator& c = joinForEver(context);
    c.barrier();
    if (context.rank == 2) leave();
    const Outcome outcome = outcomeOf([&] { barrierForEver(c); });
    expectLeft(outcome, 2);
    EXPECT_TRUE(contains(outcome.text, "left after operation 1; ")) << outcome.text;
    leave();
    return 0;
  });
  EXPECT_TRUE(ranks.allSucceed(20s));
}

// The child's communicators are its parent's, and it says nothing; the parent goes on.
TEST(Exit, OfAForkedChildIsNoRanks) {
  RankProcesses ranks(2, [](const Context& context) {
    Communicator& c = joinForEver(context);
    EXPECT_EQ(inChild([]() -> int { std::exit(7); }), 7);
    for (int i = 0; i < 3; ++i) {
      std::this_thread::sleep_for(50ms);
      EXPECT_EQ(outcomeOf([&] { c.barrier(); }).text, "no error");
    }
    leave();
    return 0;
  });
  EXPECT_TRUE(ranks.allSucceed(20s));
}

TEST(Exit, ByOtherMeansIsADeath) {
  for (const auto& end :
       std::array<void (*)(), 4>{[] { ::_exit(0); }, [] { std::quick_exit(0); },
                                 [] { std::abort(); }, [] { ::raise(SIGTERM); }}) {
    RankProcesses ranks(2, [&](const Context& context) {
      Communicator& c = joinForEver(context);
      if (context.rank == 1) {
        c.barrier();
        end();
      }
      const Outcome outcome = outcomeOf([&] { barrierForEver(c); });
      EXPECT_EQ(outcome.code, ErrorCode::PeerLost);
      EXPECT_TRUE(contains(outcome.text, "was lost: its process ended")) << outcome.text;
      leave();
      return 0;
    });
    EXPECT_EQ(ranks.wait(0, 20s), 0) << ranks.output(0);
  }
}

// Exit handlers and static objects may still make calls: the goodbye comes behind them.
std::optional<Communicator> lastCalls;

struct CallsAtTheEnd {
  ~CallsAtTheEnd() {
    if (lastCalls) lastCalls->barrier();
  }
} callsAtTheEnd;

TEST(Exit, ComesBehindTheCallsOfExitHandlersAndStaticObjects) {
  RankProcesses ranks(2, [](const Context& context) {
    std::atexit([] { lastCalls->barrier(); });
    lastCalls = context.join();
    if (context.rank == 1) std::this_thread::sleep_for(300ms);
    leave();
    return 0;
  });
  EXPECT_TRUE(ranks.allSucceed(20s));
}

/// Until long after the goodbyes, which are newer.
void lingerAtTheEnd() {
  new base::AtExit([](const base::Deadline&) { std::this_thread::sleep_for(600ms); },
                   base::AtExit::Phase::Last);
}

// One waits for the other process, and one for its sibling. What a rank tells at the end must not
// reach the sibling's call: that would throw, and end the program by std::terminate().
TEST(Exit, LeavesThreadsInTheirCalls) {
  for (int round = 0; round < 3; ++round) {
    RankProcesses ranks(2, [](const Context& context) {
      lingerAtTheEnd();
      const auto pair = UniqueId::create();
      std::atomic<int> ready{0};
      for (const int rank : {0, 1})
        std::thread([&, rank] {
          auto* const c =
              new Communicator(Communicator::create({.id = pair, .rank = rank, .size = 2}));
          c->barrier();
          ++ready;
          if (rank == 0) std::this_thread::sleep_for(20s);
          c->barrier();
        }).detach();
      Communicator& c = joinForEver(context);
      std::thread([&] {
        c.barrier();
        ++ready;
        std::vector<float> values(10);
        receive(c, values, 1 - context.rank);  // which may leave first
      }).detach();
      while (ready < 3) std::this_thread::sleep_for(1ms);
      if (context.rank == 0) std::this_thread::sleep_for(20ms);
      leave();
      return 0;
    });
    EXPECT_TRUE(ranks.allSucceed(20s));
  }
}

}  // namespace
}  // namespace tutti::tests
