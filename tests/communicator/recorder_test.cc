// The flight recorder by itself: it keeps the last operations and, whatever is issued after it, the
// one that is running.

#include "src/communicator/recorder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace tutti::communicator {
namespace {

constexpr uint64_t kKept = Recorder::kEntries;

CallFacts factsOf(uint64_t number) {
  return {.collective = plan::Collective::AllReduce, .type = DataType::Int32, .count = number};
}
Recorder::Entry entryOf(uint64_t number) {
  return {.number = number, .sequence = number, .facts = factsOf(number)};
}

TEST(Recorder, KeepsTheLastOperations) {
  Recorder recorder;
  EXPECT_FALSE(recorder.find(0));
  EXPECT_FALSE(recorder.find(1));
  for (uint64_t n = 1; n <= 3 * kKept; ++n) {
    recorder.issued(entryOf(n));
    recorder.running(entryOf(n));
    recorder.finished(n, CallPhase::Done);
  }
  EXPECT_FALSE(recorder.find(2 * kKept));
  ASSERT_TRUE(recorder.find(2 * kKept + 1));
  EXPECT_EQ(*recorder.find(2 * kKept + 1)->collective(), factsOf(2 * kKept + 1));
  EXPECT_EQ(recorder.recent().size(), kKept);
  EXPECT_EQ(recorder.recent().front().number, 2 * kKept + 1);
  for (const auto& entry : recorder.recent()) EXPECT_EQ(entry.phase, CallPhase::Done);
}

TEST(Recorder, KeepsTheRunningOneBehindAnyNumberOfOthers) {
  Recorder recorder;
  for (uint64_t n = 1; n <= 2 * kKept; ++n) recorder.issued(entryOf(n));
  recorder.running(entryOf(1));
  recorder.waiting(1, 3, 4096, 77);
  const auto entry = recorder.find(1);
  ASSERT_TRUE(entry);
  EXPECT_EQ(*entry->collective(), factsOf(1));
  EXPECT_EQ(entry->phase, CallPhase::Running);
  EXPECT_EQ(entry->waitingSinceNs, 77);
  EXPECT_EQ(entry->waitingFor, 3);
  EXPECT_EQ(entry->bytesReceived, 4096u);
  // The one whose place it shares is as it was.
  ASSERT_TRUE(recorder.find(1 + kKept));
  EXPECT_EQ(recorder.find(1 + kKept)->phase, CallPhase::Issued);
  EXPECT_EQ(recorder.find(1 + kKept)->waitingFor, -1);
  EXPECT_EQ(recorder.recent().front().number, 1u);
  EXPECT_NE(recorder.describe(2).find("operation 1 is running: all_reduce of 1 int32"),
            std::string::npos)
      << recorder.describe(2);
  recorder.finished(1, CallPhase::Done);
  EXPECT_EQ(recorder.find(1)->phase, CallPhase::Done);
  EXPECT_EQ(recorder.find(1 + kKept)->phase, CallPhase::Issued);
}

// Exchanges have numbers of their own, and collectives are found by theirs.
TEST(Recorder, FindsCollectivesAmongExchanges) {
  Recorder recorder;
  for (uint64_t n = 1; n <= 10; ++n) {
    Recorder::Entry entry{.number = n, .sequence = (n + 1) / 2, .facts = factsOf((n + 1) / 2)};
    if (n % 2 == 0) entry.facts = ExchangeFacts{.sends = 1, .bytesSent = n};
    recorder.issued(entry);
  }
  EXPECT_FALSE(recorder.findCollective(0));
  ASSERT_TRUE(recorder.findCollective(4));
  EXPECT_EQ(recorder.findCollective(4)->number, 7u);
  EXPECT_FALSE(recorder.findCollective(6));
  EXPECT_EQ(recorder.find(8)->name(), "exchange 4");
  EXPECT_EQ(recorder.find(8)->describe(), "1 send of 8 bytes and 0 receives of 0 bytes");
  recorder.running({.number = 100, .sequence = 60, .facts = factsOf(60)});
  EXPECT_EQ(recorder.findCollective(60)->number, 100u);
}

// Calls alike that follow each other: each has its number and its phase, and there are no more of
// them than of others.
TEST(Recorder, KnowsTheCallsOfASeries) {
  Recorder recorder;
  for (uint64_t n = 1; n <= 5; ++n) {
    recorder.issued(entryOf(n));
    recorder.running(entryOf(n));
    recorder.finished(n, CallPhase::Done);
  }
  recorder.beginSeries({.number = 8, .sequence = 6, .facts = factsOf(9)});
  EXPECT_EQ(recorder.find(8)->phase, CallPhase::Running);
  recorder.repeatDone();
  recorder.repeat();
  recorder.repeatDone();
  recorder.repeat();
  EXPECT_FALSE(recorder.find(11));
  for (const uint64_t n : {8, 9, 10}) {
    const auto entry = recorder.find(n);
    ASSERT_TRUE(entry) << n;
    EXPECT_EQ(entry->number, n);
    EXPECT_EQ(entry->sequence, n - 2);
    EXPECT_EQ(*entry->collective(), factsOf(9));
    EXPECT_EQ(entry->phase, n == 10 ? CallPhase::Running : CallPhase::Done);
    EXPECT_EQ(recorder.findCollective(n - 2)->number, n);
  }
  EXPECT_EQ(recorder.recent().size(), 8U);
  EXPECT_EQ(recorder.recent().back().number, 10U);

  // One that has stopped on the way goes on like any other.
  recorder.running({.number = 10, .sequence = 8, .facts = factsOf(9)});
  recorder.waiting(10, 2, 64, 77);
  EXPECT_EQ(recorder.find(10)->waitingFor, 2);
  recorder.finished(10, CallPhase::Done);
  recorder.repeat();
  EXPECT_EQ(recorder.find(10)->phase, CallPhase::Done);
  EXPECT_EQ(recorder.find(11)->phase, CallPhase::Running);
  recorder.repeatDone();

  // What is issued otherwise ends the series, and those of it are kept.
  recorder.issued(entryOf(12));
  for (const uint64_t n : {1, 2, 3, 4, 5, 8, 9, 10, 11}) {
    ASSERT_TRUE(recorder.find(n)) << n;
    EXPECT_EQ(recorder.find(n)->phase, CallPhase::Done);
    EXPECT_EQ(*recorder.find(n)->collective(), factsOf(n < 8 ? n : 9));
  }
  EXPECT_EQ(*recorder.find(12)->collective(), factsOf(12));

  recorder.beginSeries({.number = 13, .sequence = 10, .facts = factsOf(9)});
  recorder.finished(13, CallPhase::Failed);
  EXPECT_EQ(recorder.find(13)->phase, CallPhase::Failed);
}

TEST(Recorder, KeepsTheLastCallsOfALongSeries) {
  Recorder recorder;
  recorder.beginSeries(entryOf(1));
  recorder.repeatDone();
  for (uint64_t n = 2; n <= 5 * kKept; ++n) {
    recorder.repeat();
    recorder.repeatDone();
  }
  for (const bool ended : {false, true}) {
    if (ended) recorder.issued(entryOf(5 * kKept + 1));
    const auto recent = recorder.recent();
    EXPECT_EQ(recent.size(), kKept);
    EXPECT_EQ(recent.back().number, 5 * kKept + (ended ? 1 : 0));
    for (size_t i = 1; i < recent.size(); ++i)
      EXPECT_EQ(recent[i].number, recent[i - 1].number + 1);
  }
}

// A reader never sees the parts of two operations as one.
TEST(Recorder, IsReadWhileItIsWritten) {
  Recorder recorder;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t n = 1; !stop; ++n) {
      recorder.issued(entryOf(n));
      recorder.running(entryOf(n));
      recorder.finished(n, CallPhase::Done);
    }
  });
  for (int i = 0; i < 20000; ++i)
    for (const auto& entry : recorder.recent()) ASSERT_EQ(entry.collective()->count, entry.number);
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace tutti::communicator
