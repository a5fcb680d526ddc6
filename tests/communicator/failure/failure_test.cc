// What users see when ranks die, stop, leave, or skip a call. Every rank is a process; every wait
// of the test is bounded; the failure model's deadlines (1 s for a local death) are asserted.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include <tutti/tutti.h>

#include "tests/support/failure_report.h"
#include "tests/support/leftovers.h"
#include "tests/support/local_ranks.h"
#include "tests/support/rank_processes.h"
#include "tests/support/text.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;

void sumForEver(
    Communicator& c, size_t count, const std::function<void()>& ready = [] {}) {
  std::vector<float> x(count, 1.0f), y(count);
  ready();
  while (true) c.allReduce({.send = x.data(), .recv = y.data(), .count = count});
}

void sum(Communicator& c, size_t count) {
  std::vector<float> x(count), y(count);
  c.allReduce({.send = x.data(), .recv = y.data(), .count = count});
}

// Row 1 of the failure table, local: also with messages of several sizes, so that the death falls
// into different phases.
TEST(Death, EverySurvivorNamesTheDeadRankWithinASecond) {
  for (const size_t count : {1, 3000, 2000000}) {
    RankProcesses ranks(4, [count](const Context& context) {
      Communicator c = context.join();
      const auto ready = [&] {
        c.barrier();
        context.say("joined");
      };
      reportFailure(context, [&] { sumForEver(c, count, ready); });
      return 0;
    });
    for (int r = 0; r < 4; ++r) ASSERT_TRUE(ranks.awaitLine(r, "joined", 20s)) << ranks.output(r);
    std::this_thread::sleep_for(50ms);
    const int64_t killed = nowMs();
    ranks.signal(2, SIGKILL);
    for (const int r : {0, 1, 3}) {
      expectReported(ranks, r, {"peer lost|rank 2 (pid " + std::to_string(ranks.pid(2))}, killed,
                     kDeathNoticedMs);
    }
  }
}

// Row 2.
TEST(Abort, ReturnsHereAndIsNamedElsewhere) {
  RankProcesses ranks(3, [](const Context& context) {
    Communicator c = context.join();
    if (context.rank == 1) {
      sum(c, 100);
      c.abort();
      c.abort();
      reportFailure(context, [&] { c.barrier(); });
      return 0;
    }
    reportFailure(context, [&] { sumForEver(c, 100); });
    return 0;
  });
  ASSERT_TRUE(ranks.allSucceed(10s));
  for (int r = 0; r < 3; ++r)
    EXPECT_TRUE(contains(ranks.output(r), "aborted|abort() was called by rank 1"))
        << ranks.output(r);
}

TEST(Abort, FromAnotherThreadEndsAWaitingCall) {
  auto ranks = Communicator::createLocal(2);
  std::thread aborter([&] {
    std::this_thread::sleep_for(50ms);
    ranks[0].abort();
  });
  EXPECT_THROW(ranks[0].barrier(), Error);  // rank 1 never comes
  aborter.join();
  ASSERT_TRUE(ranks[0].asyncError());
  EXPECT_EQ(ranks[0].asyncError()->code(), ErrorCode::Aborted);
  EXPECT_THROW(ranks[0].barrier(), Error);
}

// Row 3.
TEST(Straggler, IsReportedAndTheJobGoesOn) {
  RankProcesses ranks(3, [](const Context& context) {
    setLogSink([&](LogLevel, std::string_view line) { context.say("log " + std::string(line)); });
    Communicator c = context.join({.straggler = 300ms});
    context.say("joined");
    const int64_t until = nowMs() + 3000;
    int again = 1;
    while (again) {
      again = nowMs() < until;
      c.broadcast({.send = &again, .recv = &again, .count = 1, .type = DataType::Int32});
    }
    setLogSink({});
    return 0;
  });
  for (int r = 0; r < 3; ++r) ASSERT_TRUE(ranks.awaitLine(r, "joined", 20s));
  std::this_thread::sleep_for(200ms);
  ranks.signal(1, SIGSTOP);
  std::this_thread::sleep_for(1500ms);
  ranks.signal(1, SIGCONT);
  ASSERT_TRUE(ranks.allSucceed(20s));
  const std::string all = ranks.output(0) + ranks.output(2);
  EXPECT_TRUE(contains(all, "straggler: rank 1 (pid " + std::to_string(ranks.pid(1)))) << all;
  EXPECT_TRUE(contains(all, "stopped")) << all;
}

// Row 6: a rank that exits too early, with and without destroying its communicator.
TEST(EarlyExit, IsNamedWithTheOperationTheOthersAreIn) {
  for (const bool clean : {true, false}) {
    RankProcesses ranks(3, [clean](const Context& context) {
      Communicator c = context.join();
      if (context.rank == 2) {
        sum(c, 10);
        if (!clean) ::_exit(0);
        return 0;  // the destructor says goodbye
      }
      reportFailure(context, [&] { sumForEver(c, 10); });
      return 0;
    });
    ASSERT_TRUE(ranks.allSucceed(10s));
    for (const int r : {0, 1}) {
      const std::string out = ranks.output(r);
      EXPECT_TRUE(contains(out, "peer lost|rank 2 (pid ")) << out;
      EXPECT_EQ(contains(out, "left after operation 1"), clean) << out;
      EXPECT_TRUE(contains(out, "operation")) << out;
    }
  }
}

// Row 6: a rank that skips a collective and then sits there. The others' deadline names it.
TEST(Skipping, EndsAtTheDeadlineAndNamesTheAbsent) {
  RankProcesses ranks(3, [](const Context& context) {
    Communicator c = context.join({.timeout = 1500ms});
    c.barrier();
    context.say("joined");
    if (context.rank == 1) {
      std::this_thread::sleep_for(4s);
      reportFailure(context, [&] { c.barrier(); });
      return 0;
    }
    reportFailure(context, [&] { c.barrier(); });
    return 0;
  });
  ASSERT_TRUE(ranks.allSucceed(15s));
  const std::string out = ranks.output(0) + ranks.output(2);
  EXPECT_TRUE(contains(out, "timeout|")) << out;
  EXPECT_TRUE(contains(out, "rank 1 (pid ")) << out;
  EXPECT_TRUE(contains(out, "operation 2, barrier")) << out;
  EXPECT_TRUE(contains(out, "has finished operation 1")) << out;
}

// The flight recorder is part of the report: what this rank had done, and the operation that failed
// with whom it waited for. After an abort, which is nobody's mistake, it is not printed.
TEST(FlightRecorder, IsLoggedWithAFailure) {
  RankProcesses ranks(2, [](const Context& context) {
    setLogSink([&](LogLevel level, std::string_view line) {
      if (level == LogLevel::Error) context.say("log " + std::string(line));
    });
    Communicator c = context.join({.timeout = 700ms});
    auto part = c.split(0, c.rank());
    c.barrier();  // everybody has it
    if (context.rank == 0) part->abort();
    for (int i = 0; i < 20; ++i) sum(c, 100 + i);
    if (context.rank == 0) {
      reportFailure(context, [&] { c.barrier(); });
    } else {
      std::this_thread::sleep_for(2s);
    }
    setLogSink({});
    return 0;
  });
  ASSERT_TRUE(ranks.allSucceed(20s));
  const std::string out = ranks.output(0);
  const auto at = out.find("log rank 0 (pid " + std::to_string(ranks.pid(0)));
  ASSERT_NE(at, std::string::npos) << out;
  EXPECT_EQ(out.find("log "), at) << "the abort was printed: " << out;
  const std::string report = out.substr(at);
  for (const char* part : {"recent operations:\n", "did not complete within 700 ms",
                           "operation 22 is done: all_reduce of 119 float32, sum, by ",
                           "operation 23 is running: barrier, by ", "; waits for rank 1 with "})
    EXPECT_TRUE(contains(report, part)) << part << "\n" << report;
  EXPECT_FALSE(contains(report, "operation 2 is")) << "it prints the last few, not all";
}

TEST(Fork, TheChildMayNotUseTheParentsCommunicator) {
  RankProcesses ranks(2, [](const Context& context) {
    Communicator c = context.join();
    c.barrier();
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        c.barrier();
      } catch (const Error& e) {
        ::_exit(e.code() == ErrorCode::InvalidUsage ? 7 : 8);
      }
      ::_exit(9);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    c.barrier();  // the parent goes on
    return WEXITSTATUS(status) == 7 ? 0 : 1;
  });
  EXPECT_TRUE(ranks.allSucceed(10s));
}

// Row 19's other half and the rest of the API over processes: windows that are released in any
// order.
TEST(Windows, AreUsedAndReleasedInAnyOrder) {
  RankProcesses ranks(3, [](const Context& context) {
    auto c = std::make_unique<Communicator>(context.join());
    constexpr size_t kCount = 300000;
    Memory a = c->allocate(kCount * 4), b = c->allocate(kCount * 4);
    for (int repeat = 0; repeat < 3; ++repeat) {
      for (size_t i = 0; i < kCount; ++i) a.as<int>()[i] = static_cast<int>(i) + repeat;
      c->allReduce({.send = a.data(), .recv = b.data(), .count = kCount, .type = DataType::Int32});
      for (size_t i = 0; i < kCount; ++i)
        if (b.as<int>()[i] != 3 * (static_cast<int>(i) + repeat)) return 1;
      // Only one rank's memory is ordinary: all fall back together.
      std::vector<int> own(kCount, 1);
      void* recv = context.rank == 1 ? static_cast<void*>(own.data()) : b.data();
      c->allReduce({.send = a.data(), .recv = recv, .count = kCount, .type = DataType::Int32});
      if (static_cast<int*>(recv)[kCount - 1] != 3 * (static_cast<int>(kCount) - 1 + repeat))
        return 2;
    }
    a = Memory();
    c->barrier();
    c.reset();
    b.as<int>()[0] = 5;  // memory may outlive its communicator
    return 0;
  });
  EXPECT_TRUE(ranks.allSucceed(30s));
}

}  // namespace
}  // namespace tutti::tests
