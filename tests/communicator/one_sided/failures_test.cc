// What users see when ranks die, stop, leave or disagree while others are in one-sided calls: rows
// 1 to 6 of the failure table. Every rank is a process, or a thread where nobody dies.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include <tutti/tutti.h>

#include "tests/support/failure_report.h"
#include "tests/support/leftovers.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/rank_processes.h"
#include "tests/support/text.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;

void waitFor(Communicator& c, int peer, StreamRef stream = {}) {
  const AwaitedSignals one{.peer = peer};
  c.waitSignals({.signals = {&one, 1}}, stream);
}

/// Each rank puts to the next and waits for the one before, for ever.
void putForEver(Communicator& c, const Window& window, size_t bytes) {
  const std::vector<uint8_t> data(bytes, 7);
  const int next = (c.rank() + 1) % c.size(), before = (c.rank() + c.size() - 1) % c.size();
  while (true) {
    c.put({.send = data.data(),
           .count = bytes,
           .type = DataType::UInt8,
           .peer = next,
           .window = &window});
    waitFor(c, before);
  }
}

// Row 1: in puts of several sizes, straight and by messages, and in waits.
TEST(OneSidedDeath, EverySurvivorNamesTheDeadRankWithinASecond) {
  for (const bool shared : {true, false})
    for (const size_t bytes : {1, 3'000'000}) {
      RankProcesses ranks(3, [=](const Context& context) {
        Communicator c = context.join();
        std::vector<uint8_t> ordinary(shared ? 0 : bytes);
        const Memory memory = shared ? c.allocate(bytes) : Memory();
        const Window window = c.window({shared ? memory.data() : ordinary.data(), bytes});
        c.barrier();
        context.say("joined");
        reportFailure(context, [&] { putForEver(c, window, bytes); });
        return 0;
      });
      for (int r = 0; r < 3; ++r) ASSERT_TRUE(ranks.awaitLine(r, "joined", 20s)) << ranks.output(r);
      std::this_thread::sleep_for(50ms);
      const int64_t killed = nowMs();
      ranks.signal(1, SIGKILL);
      for (const int r : {0, 2}) {
        expectReported(ranks, r, {"peer lost|rank 1 (pid " + std::to_string(ranks.pid(1))}, killed,
                       kDeathNoticedMs);
      }
    }
}

// Row 2: on streams and without.
TEST(OneSidedAbort, EndsWaitsHereAndIsNamedElsewhere) {
  auto ranks = Communicator::createLocal(3);
  std::vector<Window> windows;
  for (Communicator& c : ranks) windows.push_back(c.window({}));
  Stream stream;
  waitFor(ranks[0], 1, stream);
  Outcome waiting;
  std::thread waiter([&] { waiting = outcomeOf([&] { waitFor(ranks[2], 1); }); });
  std::this_thread::sleep_for(50ms);
  ranks[0].abort();
  const Outcome queued = outcomeOf([&] { stream.synchronize(); });
  waiter.join();
  for (const Outcome& outcome : {queued, waiting}) {
    EXPECT_EQ(outcome.code, ErrorCode::Aborted);
    EXPECT_TRUE(contains(outcome.text, "abort() was called by rank 0")) << outcome.text;
  }
  EXPECT_EQ(outcomeOf([&] { ranks[0].signal({.peer = 1}); }).code, ErrorCode::Aborted);
  EXPECT_EQ(outcomeOf([&] { ranks[0].window({}); }).code, ErrorCode::Aborted);
}

// Row 3: a stopped rank is a straggler for who waits for its signals, and for who puts more to it
// than it takes.
TEST(OneSidedStraggler, IsReportedAndTheJobGoesOn) {
  RankProcesses ranks(3, [](const Context& context) {
    setLogSink([&](LogLevel, std::string_view line) { context.say("log " + std::string(line)); });
    constexpr size_t kBytes = 30'000'000;
    {
      Communicator c = context.join({.straggler = 300ms});
      std::vector<uint8_t> buffer(kBytes), data(kBytes, 3);
      const Window window = c.window({buffer.data(), kBytes});
      EXPECT_EQ(window.bytes(1), kBytes);  // so the put itself waits for rank 1
      c.barrier();
      context.say("joined");
      std::this_thread::sleep_for(500ms);
      if (context.rank == 0) {
        c.put({.send = data.data(),
               .count = kBytes,
               .type = DataType::UInt8,
               .peer = 1,
               .window = &window});
      } else if (context.rank == 2) {
        waitFor(c, 1);
      } else {
        c.signal({.peer = 2});
        waitFor(c, 0);
        if (buffer != data) return 1;
      }
      c.barrier();
    }
    setLogSink({});
    return 0;
  });
  for (int r = 0; r < 3; ++r) ASSERT_TRUE(ranks.awaitLine(r, "joined", 20s));
  ranks.signal(1, SIGSTOP);
  std::this_thread::sleep_for(2500ms);
  ranks.signal(1, SIGCONT);
  ASSERT_TRUE(ranks.allSucceed(20s));
  const std::string straggler = "straggler: rank 1 (pid " + std::to_string(ranks.pid(1));
  EXPECT_TRUE(contains(ranks.output(0), straggler)) << ranks.output(0);
  EXPECT_TRUE(contains(ranks.output(0), "put of 30000000 bytes to rank 1")) << ranks.output(0);
  EXPECT_TRUE(contains(ranks.output(2), straggler)) << ranks.output(2);
  EXPECT_TRUE(contains(ranks.output(2), "wait for 1 signal of rank 1")) << ranks.output(2);
}

// Rows 4 and 5: what ranks can disagree about is how many signals there are, and which windows.
TEST(OneSidedMismatch, OfTheNumberOfSignalsIsNamed) {
  RankProcesses ranks(2, [](const Context& context) {
    reportFailure(context, [&] { context.join({.signals = context.rank + 1}); });
    return 0;
  });
  ASSERT_TRUE(ranks.allSucceed(20s));
  const std::string all = ranks.output(0) + ranks.output(1);
  EXPECT_TRUE(contains(all, "mismatch|ranks disagree about a communicator: ")) << all;
  EXPECT_TRUE(contains(all, "signals=1")) << all;
  EXPECT_TRUE(contains(all, "signals=2")) << all;
}

TEST(OneSidedMismatch, AMissingWindowIsNamedWithItsRank) {
  auto ranks = Communicator::createLocal(2, {.setupTimeout = 700ms, .straggler = 200ms});
  std::string logged;
  setLogSink([&](LogLevel, std::string_view line) { logged += line; });
  int64_t word = 0;
  const Window window = ranks[0].window({&word, 1});
  const Outcome outcome = outcomeOf([&] {
    ranks[0].put(
        {.send = &word, .count = 1, .type = DataType::Int64, .peer = 1, .window = &window});
  });
  setLogSink({});
  EXPECT_TRUE(contains(logged, "a call with window 1 has waited 200 ms; straggler: rank 1"))
      << logged;
  EXPECT_EQ(outcome.code, ErrorCode::Timeout);
  EXPECT_TRUE(contains(outcome.text, "rank 1 (pid")) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "has not made window 1 within 700 ms")) << outcome.text;
}

// A rank that gives its buffer back while somebody puts into it.
TEST(OneSidedMismatch, APutIntoABufferThatIsGivenBackFailsTheCommunicator) {
  auto ranks = Communicator::createLocal(2);
  int64_t word = 0;
  const Window mine = ranks[0].window({});
  std::optional<Window> theirs = ranks[1].window({&word, 1});
  const int64_t value = 5;
  PreparedCall put = ranks[0].prepare(
      PutArgs{.send = &value, .count = 1, .type = DataType::Int64, .peer = 1, .window = &mine});
  theirs.reset();
  const Outcome here = outcomeOf([&] {
    put.start();
    waitFor(ranks[0], 1);
  });
  const Outcome there = outcomeOf([&] { waitFor(ranks[1], 0); });
  for (const Outcome& outcome : {here, there}) {
    EXPECT_EQ(outcome.code, ErrorCode::InvalidUsage) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "rank 0 (pid")) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "puts into window 1 of rank 1")) << outcome.text;
  }
  EXPECT_EQ(word, 0);
}

// Row 6: a rank that sends no signal, or has left.
TEST(OneSidedAbsence, EndsAtTheDeadlineAndNamesTheAbsent) {
  auto ranks = Communicator::createLocal(2, {.timeout = 700ms});
  std::vector<Window> windows;
  for (Communicator& c : ranks) windows.push_back(c.window({}));
  const Outcome outcome = outcomeOf([&] { waitFor(ranks[0], 1); });
  EXPECT_EQ(outcome.code, ErrorCode::Timeout);
  EXPECT_TRUE(contains(outcome.text, "wait for 1 signal of rank 1 did not complete within 700 ms"))
      << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "it waits for rank 1 (pid")) << outcome.text;
}

TEST(OneSidedAbsence, OfARankThatHasLeftIsNamed) {
  for (const bool puts : {true, false}) {
    auto ranks = Communicator::createLocal(2);
    int64_t word = 0;
    const Window mine = ranks[0].window({&word, 1});
    std::optional<Window> theirs = ranks[1].window({&word, 1});
    PreparedCall put = ranks[0].prepare(
        PutArgs{.send = &word, .count = 1, .type = DataType::Int64, .peer = 1, .window = &mine});
    ranks[1].signal({.peer = 0});
    theirs.reset();
    ranks.pop_back();
    waitFor(ranks[0], 1);  // what it has sent is there
    const Outcome outcome = outcomeOf([&] {
      if (!puts) return waitFor(ranks[0], 1);
      while (true) put.start();
    });
    EXPECT_EQ(outcome.code, ErrorCode::PeerLost) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, "rank 1 (pid")) << outcome.text;
    EXPECT_TRUE(contains(outcome.text, puts ? "put of 8 bytes" : "wait for 1 signal"))
        << outcome.text;
  }
}

// Survivors go on with new windows. Nothing of the old communicator is written any more.
TEST(OneSidedShrink, SurvivorsMakeNewWindows) {
  RankProcesses ranks(3, [](const Context& context) {
    Communicator c = context.join();
    std::vector<uint8_t> buffer(100'000);
    const Window window = c.window({buffer.data(), buffer.size()});
    if (context.rank == 1) {
      for (const int peer : {0, 2}) waitFor(c, peer);
      ::_exit(0);
    }
    c.signal({.peer = 1});
    if (outcomeOf([&] { putForEver(c, window, buffer.size()); }).code != ErrorCode::PeerLost)
      return 1;
    Communicator smaller = c.shrink();
    buffer.assign(buffer.size(), 0);
    const Window again = smaller.window({buffer.data(), buffer.size()});
    const uint8_t value = static_cast<uint8_t>(smaller.rank() + 1);
    smaller.put({.send = &value,
                 .count = 1,
                 .type = DataType::UInt8,
                 .peer = 1 - smaller.rank(),
                 .window = &again,
                 .offset = 9});
    waitFor(smaller, 1 - smaller.rank());
    smaller.barrier();
    for (size_t i = 0; i < buffer.size(); ++i)
      if (buffer[i] != (i == 9 ? 2 - smaller.rank() : 0)) return 2;
    return 0;
  });
  EXPECT_EQ(ranks.wait(0, 20s), 0) << ranks.output(0);
  EXPECT_EQ(ranks.wait(2, 20s), 0) << ranks.output(2);
}

// Rows 2 and 6: who shrinks takes no part any more.
TEST(OneSidedShrink, EndsWhatOthersPutToARankThatShrinks) {
  auto ranks = Communicator::createLocal(2, {.setupTimeout = 20s});
  std::vector<Window> windows;
  for (Communicator& c : ranks) windows.push_back(c.window({}));
  std::thread shrinking([&] { EXPECT_EQ(ranks[1].shrink().size(), 2); });
  const Outcome outcome = outcomeOf([&] {
    while (true) ranks[0].signal({.peer = 1});
  });
  EXPECT_EQ(ranks[0].shrink().size(), 2);
  shrinking.join();
  EXPECT_EQ(outcome.code, ErrorCode::Aborted) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, "shrinks the communicator")) << outcome.text;
}

TEST(OneSidedFork, TheChildMayNotUseWindows) {
  RankProcesses ranks(2, [](const Context& context) {
    Communicator c = context.join();
    int64_t word = 0;
    std::optional<Window> window = c.window({&word, 1});
    c.barrier();
    const pid_t child = ::fork();
    if (child == 0) {
      const bool refused =
          outcomeOf([&] { c.signal({.peer = 1}); }).code == ErrorCode::InvalidUsage &&
          outcomeOf([&] {
            c.window({&word, 1});
          }).code == ErrorCode::InvalidUsage;
      window.reset();
      ::_exit(refused ? 7 : 8);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    c.signal({.peer = 1 - context.rank});
    waitFor(c, 1 - context.rank);
    c.barrier();
    return WEXITSTATUS(status) == 7 ? 0 : 1;
  });
  EXPECT_TRUE(ranks.allSucceed(10s));
}

}  // namespace
}  // namespace tutti::tests
