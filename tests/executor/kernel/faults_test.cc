// Ranks that disagree, are aborted, are late or fail: every kernel ends, and the error names peer,
// operation and bytes.

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "tests/executor/kernel/failures.h"

namespace tutti::tests {
namespace {

class Faults : public testing::TestWithParam<Wire> {};

TEST_P(Faults, CallsThatDifferAreAMismatch) {
  DeviceRanks ranks({.ranks = 2});
  ranks.begin(ringCall(2, 300), GetParam(), 1);
  expectDifferentCallsAreAMismatch(ranks);
}

TEST_P(Faults, CountsThatDifferAreAMismatch) {
  DeviceRanks ranks({.ranks = 2});
  ranks.begin(ringCall(2, 300), GetParam(), 1);
  expectDifferentCountsAreAMismatch(ranks);
}

TEST_P(Faults, ASkippedOperationIsAMismatch) {
  DeviceRanks ranks({.ranks = 2});
  ranks.begin(ringCall(2, 300), GetParam(), 1);
  expectSkippedIsMismatch(ranks);
}

void expectAbortEndsAll(DeviceRanks& ranks, Wire wire) {
  ranks.begin(ringCall(3, 9000), wire, 1);
  ranks.launch(0);
  ranks.launch(1);
  const auto end = base::Deadline::after(std::chrono::seconds(20));
  while (!ranks.executor(0).isRunning() && !end.passed()) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(ranks.executor(0).failure());
  EXPECT_EQ(ranks.executor(0).completed(), 0U);
  EXPECT_TRUE(ranks.executor(0).isRunning());
  EXPECT_FALSE(ranks.executor(2).isRunning());
  ranks.executor(0).abort();
  ranks.wait(0);
  ranks.wait(1);
  EXPECT_FALSE(ranks.executor(0).isRunning());
  EXPECT_FALSE(ranks.executor(1).isRunning());
  EXPECT_EQ(failureOf(ranks, 0).code(), ErrorCode::Aborted);
  expectNames(failureOf(ranks, 0), {"rank 0", "waiting for rank"});
  EXPECT_EQ(failureOf(ranks, 1).code(), ErrorCode::PeerLost);
  expectNames(failureOf(ranks, 1), {"rank 1, operation 0", "rank 0 has given up"});
  // The last one comes late, and learns of it all the same.
  ranks.launch(2);
  ranks.wait(2);
  EXPECT_EQ(failureOf(ranks, 2).code(), ErrorCode::PeerLost);
  EXPECT_THROW(ranks.launch(0), Error);
  for (int r = 0; r < 3; ++r) EXPECT_EQ(ranks.executor(r).completed(), 0U);
}

TEST_P(Faults, AbortEndsAllRanks) {
  DeviceRanks ranks({.ranks = 3});
  expectAbortEndsAll(ranks, GetParam());
}

TEST_P(Faults, AbortEndsAllRanksThatTheHostJoins) {
  DeviceRanks ranks({.ranks = 3, .byHost = true});
  expectAbortEndsAll(ranks, GetParam());
}

TEST_P(Faults, NoWaitIsForEver) {
  DeviceRanksOptions options{.ranks = 2};
  options.executor.deadlineNs = 30'000'000;
  DeviceRanks ranks(options);
  ranks.begin(ringCall(2, 300), GetParam(), 1);
  expectTimeout(ranks);
}

TEST_P(Faults, WhatIsDiscardedTouchesNothing) {
  expectDiscardedTouchesNothing(ringCall(3, 9000), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Wires, Faults, testing::ValuesIn(kWires));

TEST(MappedFaults, WhatIsDiscardedTouchesNothing) {
  expectDiscardedTouchesNothing(mappedCall(3, 9000), Wire::Simple);
}

// What it reads of the caller's may be there no more.
TEST(ScalarFaults, WhatIsDiscardedTouchesNothing) {
  DeviceRanks ranks({.ranks = 2});
  Call call = ringCall(2, 100);
  call.op = ReduceOp::PreMulSum;
  ranks.begin(call, Wire::Simple, 1);
  discard(ranks, [&](int r) {
    DeviceLaunch launch = ranks.launchOf(r);
    launch.call.scalarAt = reinterpret_cast<const void*>(uintptr_t{64});
    ranks.launch(r, launch);
  });
}

// Ranks that disagree touch nobody's buffers: entries are compared before the first step, whose
// messages would tell it too late. Nor does a rank that comes when another has given up.
TEST(MappedFaults, EntriesAreCheckedAndAwaitedWithADeadline) {
  DeviceRanksOptions options{.ranks = 2};
  options.executor.deadlineNs = 30'000'000;
  {
    DeviceRanks ranks({.ranks = 2});
    const Call call = mappedCall(2, 300);
    ranks.begin(call, Wire::Simple, 1);
    launchChanged(ranks, [](DeviceLaunch& launch, int r) {
      launch.call.callHash += static_cast<uint32_t>(r);
    });
    for (int r = 0; r < 2; ++r) ranks.wait(r);
    EXPECT_TRUE(ranks.executor(0).failure()->code() == ErrorCode::Mismatch ||
                ranks.executor(1).failure()->code() == ErrorCode::Mismatch);
    for (int r = 0; r < 2; ++r)
      EXPECT_EQ(ranks.buffer(r).download(), memoryOf(call, r, 1).bytes) << "rank " << r;
  }
  DeviceRanks ranks(options);
  const Call call = mappedCall(2, 300);
  ranks.begin(call, Wire::Simple, 1);
  ranks.launch(0);
  ranks.wait(0);
  EXPECT_EQ(ranks.executor(0).failure()->code(), ErrorCode::Timeout);
  ranks.launch(1);
  ranks.wait(1);
  EXPECT_EQ(ranks.executor(1).failure()->code(), ErrorCode::PeerLost);
  EXPECT_EQ(ranks.buffer(0).download(), memoryOf(call, 0, 1).bytes);
}

// More blocks than the device holds would wait for those that cannot start.
TEST(Room, IsCountedAndWhatDoesNotFitIsRefused) {
  DeviceRanksOptions options{.ranks = 2, .devices = 1};
  options.executor.blocks = 3;
  DeviceRanks ranks(options);
  const uint32_t all = ranks.residency().capacity(0);
  ranks.residency().reserve(0, all - 6, "rank 7");
  try {
    ranks.residency().reserve(0, 1, "rank 8");
    FAIL() << "one block too many";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidUsage);
    const std::string text = error.what();
    for (const std::string& part :
         {std::string("rank 8 needs 1 blocks on device 0"), std::to_string(all)})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  ranks.residency().release(0, all - 6);
  ranks.residency().reserve(0, 1, "rank 8");
  ranks.residency().release(0, 1);
}

TEST(Room, ProgramsOfTooManyLanesAreRefused) {
  DeviceRanksOptions options{.ranks = 2};
  options.executor.blocks = 1;
  DeviceRanks ranks(options);
  const Call call = ringCall(2, 10);
  plan::Program program;
  program.lanes.resize(16);
  EXPECT_THROW(ranks.executor(0).prepareProgram(call.spec, program), Error);
  program.lanes.resize(15);
  EXPECT_NO_THROW(ranks.executor(0).prepareProgram(call.spec, program));
}

}  // namespace
}  // namespace tutti::tests
