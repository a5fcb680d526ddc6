// Communicators that give their memory back, and take it again.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include <tutti/tutti.h>

#include "tests/support/leftovers.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/rank_processes.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;

int sumOf(Communicator& c, int x) {
  c.allReduce({.send = &x, .recv = &x, .count = 1, .type = DataType::Int32});
  return x;
}

Communicator suspendAndResume(Communicator c) {
  SuspendedCommunicator suspended = std::move(c).suspend();
  return suspended.resume();
}

TEST(Suspend, GivesSlotsBackAndTakesThemAgain) {
  auto ranks = Communicator::createLocal(3, {.transport = "shm"});
  std::vector<SuspendedCommunicator> suspended;
  std::vector<uint64_t> bytes;
  for (Communicator& c : ranks) {
    EXPECT_EQ(c.memory().device, 0U);
    bytes.push_back(c.memory().host);
    EXPECT_GT(bytes.back(), 1U << 16);
  }
  runRanks(ranks, [](Communicator& c) { EXPECT_EQ(sumOf(c, 1), 3); });
  const long before = mappedSharedMemoryKib();
  EXPECT_GT(before, 0);
  for (Communicator& c : ranks) suspended.push_back(std::move(c).suspend());
  EXPECT_EQ(mappedSharedMemoryKib(), 0);
  EXPECT_EQ(countSharedMemoryDescriptors(), 0);
  std::vector<std::optional<Communicator>> again(3);
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < 3; ++r) threads.emplace_back([&, r] { again[r] = suspended[r].resume(); });
  }
  std::vector<Communicator> resumed;
  for (auto& c : again) resumed.push_back(std::move(*c));
  runRanks(resumed, [&](Communicator& c) {
    EXPECT_EQ(sumOf(c, c.rank()), 3);
    EXPECT_EQ(c.memory().host, bytes[c.rank()]);
    Communicator once = suspendAndResume(std::move(c));
    EXPECT_EQ(sumOf(once, 1), 3);
    Communicator twice = suspendAndResume(std::move(once));
    EXPECT_EQ(sumOf(twice, 2), 6);
    // Also one that was split.
    auto half = twice.split(twice.rank() == 0 ? 0 : 1, 0);
    Communicator last = suspendAndResume(std::move(*half));
    EXPECT_EQ(sumOf(last, 1), last.size());
  });
}

TEST(Suspend, WorksOverTcpToo) {
  int looked[2];
  ASSERT_EQ(::pipe(looked), 0);
  RankProcesses ranks(3, [&looked](const Context& context) {
    Communicator c = context.join({.transport = "tcp"});
    EXPECT_EQ(sumOf(c, 1), 3);
    const uint64_t used = c.memory().host;
    EXPECT_GT(used, 0U);
    Communicator again = suspendAndResume(std::move(c));
    // Rings are made when a rank first uses them: the others wait until rank 0 has looked.
    if (context.rank == 0) {
      EXPECT_EQ(again.memory().host, 0U);
      EXPECT_EQ(::write(looked[1], "..", 2), 2);
    } else {
      char byte;
      EXPECT_EQ(::read(looked[0], &byte, 1), 1);
    }
    EXPECT_EQ(sumOf(again, 2), 6);
    EXPECT_EQ(again.memory().host, used);
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_TRUE(ranks.allSucceed(60s));
  ::close(looked[0]);
  ::close(looked[1]);
}

TEST(Suspend, NamesARankThatHasDiedMeanwhile) {
  RankProcesses ranks(3, [](const Context& context) {
    SuspendedCommunicator suspended = context.join().suspend();
    context.say("suspended");
    if (context.rank == 1) {
      ::pause();
      return 0;
    }
    const Outcome outcome = outcomeOf([&] { suspended.resume(); });
    expectError(outcome, ErrorCode::PeerLost, "rank 1");
    expectError(outcomeOf([&] { suspended.resume(); }), ErrorCode::InvalidUsage, "called before");
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  for (int r = 0; r < 3; ++r) ASSERT_TRUE(ranks.awaitLine(r, "suspended", 30s));
  ranks.signal(1, SIGKILL);
  for (const int r : {0, 2}) EXPECT_EQ(ranks.wait(r, 30s), 0) << ranks.output(r);
}

// One that does not resume but goes is named too.
TEST(Suspend, NamesARankThatHasLeftMeanwhile) {
  RankProcesses ranks(2, [](const Context& context) {
    std::optional<SuspendedCommunicator> suspended = context.join().suspend();
    if (context.rank == 1) return 0;
    expectError(outcomeOf([&] { suspended->resume(); }), ErrorCode::PeerLost, "rank 1");
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_TRUE(ranks.allSucceed(60s));
}

// The other rank never resumes.
TEST(Suspend, ResumingEndsAtARequestToStop) {
  auto ranks = Communicator::createLocal(2);
  SuspendedCommunicator first = std::move(ranks[0]).suspend();
  const SuspendedCommunicator second = std::move(ranks[1]).suspend();
  std::stop_source stop;
  const std::jthread soon([&] {
    std::this_thread::sleep_for(50ms);
    stop.request_stop();
  });
  expectError(outcomeOf([&] { first.resume(stop.get_token()); }), ErrorCode::Aborted,
              "was stopped");
}

TEST(Suspend, IsRefusedInAGroupAndAfterAFailure) {
  auto ranks = Communicator::createLocal(1);
  {
    Group group;
    expectError(outcomeOf([&] { std::move(ranks[0]).suspend(); }), ErrorCode::InvalidUsage,
                "part of a group");
  }
  EXPECT_EQ(sumOf(ranks[0], 5), 5);
  ranks[0].abort();
  EXPECT_EQ(outcomeOf([&] { std::move(ranks[0]).suspend(); }).code, ErrorCode::Aborted);
}

}  // namespace
}  // namespace tutti::tests
