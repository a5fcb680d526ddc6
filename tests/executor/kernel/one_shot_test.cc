// Short calls that are performed at once: the same messages, results and errors as by steps.

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "collectives/algorithms.h"
#include "tests/executor/kernel/failures.h"
#include "tests/executor/kernel/replays.h"

namespace tutti::tests {
namespace {

using plan::Algorithm;
using plan::Collective;
using plan::Protocol;

Call shotCall(int ranks, uint64_t count) {
  return {.spec = planOf(Algorithm::OneShot, Collective::AllReduce, Protocol::Simple, ranks),
          .count = count};
}

/// Each rank's lane has a thread for every piece of a message to every peer.
DeviceRanksOptions optionsOf(int ranks, uint32_t slots = 4) {
  DeviceRanksOptions options{
      .ranks = ranks,
      .layout = {.rings = {.channels = 2, .slotCount = slots, .slotBytes = 4096},
                 .lowLatencyBytes = 2048}};
  options.executor.threadsPerLane = 128;
  return options;
}

/// Until the rank's collective behind so many is under way.
void awaitCollective(DeviceRanks& ranks, int rank, uint64_t before) {
  const KernelExecutor& executor = ranks.executor(rank);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (executor.underWay() != before) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Random bits, as in Numbers.OfAllTypesAndReductionsAreTheHosts; ends of 8 bytes, of less and of
// more; of three ranks a list and a tree differ.
TEST(OneShot, GivesTheHostsBits) {
  DeviceRanks ranks(optionsOf(3));
  for (int type = 0; type < kDataTypeCount; ++type)
    for (int op = 0; op < kReduceOpCount; ++op)
      for (const bool deterministic : {false, true})
        for (const uint64_t count : {1, 2, 3, 31}) {
          Call call = shotCall(3, count);
          call.type = static_cast<DataType>(type);
          call.op = static_cast<ReduceOp>(op);
          call.deterministic = deterministic;
          call.inPlace = count % 2 != 0;
          if (!isDefined(call.op, call.type)) continue;
          ASSERT_EQ(differenceFromHost(ranks, call, Wire::LL), "");
        }
}

// Of more ranks and at any address, in as many pieces as there are threads, and in one more, for
// which steps are taken.
TEST(OneShot, OfAnyRanksAtAnyAddress) {
  for (const int size : {2, 5, 8}) {
    DeviceRanks ranks(optionsOf(size));
    const auto most = static_cast<uint64_t>(128 / (size - 1) - 1) * 4;
    for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{5}, most, most + 1})
      for (const size_t shift : {0, 1, 4, 8})
        ASSERT_EQ(differenceFromHost(ranks, shotCall(size, count), Wire::LL, shift), "") << shift;
  }
}

// What is longer than a slot goes in rounds, and by other wires or in slices in steps.
TEST(OneShot, IsForShortCallsByLLAlone) {
  DeviceRanksOptions options = optionsOf(3);
  options.layout.lowLatencyBytes = 128;
  DeviceRanks ranks(options);
  for (const uint64_t count : {31, 32, 33, 77, 250})
    for (const Wire wire : kWires)
      ASSERT_EQ(differenceFromHost(ranks, shotCall(3, count), wire), "") << toString(wire);
  ASSERT_EQ(differenceFromHost(ranks, shotCall(3, 32), Wire::LL, 0, 2), "");
}

// Links are the next call's, by steps or at once, through the wrap of their numbers. All messages
// are alike, so that the one with number 0 is not taken for there where nothing was written before.
TEST(OneShot, CountsMessagesAsStepsDo) {
  for (const uint32_t slots : {2, 4}) {
    DeviceRanksOptions options = optionsOf(3, slots);
    options.firstMessage = 0xfffffff0;
    DeviceRanks ranks(options);
    const Call broadcast{
        .spec = planOf(Algorithm::OneShot, Collective::Broadcast, Protocol::Simple, 3), .count = 9};
    for (int i = 0; i < 16; ++i)
      for (const Call& call : {shotCall(3, 9), broadcast, shotCall(3, 9), ringCall(3, 27)})
        ASSERT_EQ(differenceFromHost(ranks, call, Wire::LL), "");
  }
}

// Rank 0 has filled its slots by calls to which rank 1 comes late: these stay until they are read.
TEST(OneShot, WaitsForItsSlot) {
  constexpr uint32_t kSlots = 2;
  DeviceRanks ranks(optionsOf(2, kSlots));
  Call call = shotCall(2, 6);
  call.type = DataType::Int32;
  ranks.begin(call, Wire::LL, 1);
  auto spec = planOf(Algorithm::OneShot, Collective::Broadcast, Protocol::Simple, 2);
  spec.root = 0;
  std::vector<std::unique_ptr<KernelPlan>> plans;
  for (int r = 0; r < 2; ++r)
    plans.push_back(ranks.executor(r).prepareProgram(spec, collectives::build(spec, r)));
  const auto launch = [&](int r) {
    DeviceLaunch broadcast = ranks.launchOf(r);
    broadcast.plan = plans[r].get();
    broadcast.call.out = const_cast<std::byte*>(broadcast.call.in);
    for (uint32_t i = 0; i < kSlots; ++i) launchOn(ranks.executor(r), broadcast, ranks.stream(r));
    ranks.launch(r);
  };
  launch(0);
  awaitCollective(ranks, 0, kSlots);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  launch(1);
  for (int r = 0; r < 2; ++r) ranks.wait(r);
  // Rank 0's input, twice.
  uint32_t expected[6], found[6];
  const Memory memory = memoryOf(call, 0, 1);
  std::memcpy(expected, memory.bytes.data() + memory.in, sizeof expected);
  for (uint32_t& x : expected) x += x;
  for (int r = 0; r < 2; ++r) {
    EXPECT_FALSE(ranks.executor(r).failure()) << failureOf(ranks, r).what();
    std::memcpy(found, ranks.buffer(r).download().data() + memory.out, sizeof found);
    EXPECT_EQ(0, std::memcmp(found, expected, sizeof found)) << "rank " << r;
  }
}

// A rank that takes the plan's steps, here for a program that ends in another way, has the same
// messages.
TEST(OneShot, MeetsARankThatTakesSteps) {
  DeviceRanks ranks(optionsOf(3));
  const Call call = shotCall(3, 10);
  const auto expected = hostResult(call, 1, ranks.slotBytes(Wire::LL));
  plan::Program steps = collectives::build(call.spec, 1);
  ASSERT_TRUE(executor::kernel::isOneShot(call.spec, steps, 1));
  steps.lanes[0].steps[1].completes = false;
  ASSERT_FALSE(executor::kernel::isOneShot(call.spec, steps, 1));
  for (int i = 0; i < 6; ++i) {
    ranks.begin(call, Wire::LL, 1);
    const auto plan = ranks.executor(1).prepareProgram(call.spec, steps);
    DeviceLaunch launch = ranks.launchOf(1);
    launch.plan = plan.get();
    launchOn(ranks.executor(1), launch, ranks.stream(1));
    ranks.launch(0);
    ranks.launch(2);
    for (int r = 0; r < 3; ++r) ranks.wait(r);
    for (int r = 0; r < 3; ++r) EXPECT_EQ(ranks.buffer(r).download(), expected[r].bytes);
  }
}

// Between calls by steps, which have more lanes, in one launch of three ranks that share a stream.
TEST(OneShot, IsOneOfTheCallsOfALaunch) {
  DeviceRanksOptions options = optionsOf(3);
  options.devices = 1;
  options.executor.blocks = 4;
  DeviceRanks ranks(options);
  Call call = ringCall(3, 40);
  call.type = DataType::Int32;
  call.inPlace = true;
  ranks.begin(call, Wire::LL, 1);
  const auto spec = shotCall(3, 40).spec;
  std::vector<std::unique_ptr<KernelPlan>> plans;
  std::vector<RankCall> all;
  for (int r = 0; r < 3; ++r)
    plans.push_back(ranks.executor(r).prepareProgram(spec, collectives::build(spec, r)));
  for (int i = 0; i < 5; ++i)
    for (int r = 0; r < 3; ++r) {
      DeviceLaunch launch = ranks.launchOf(r);
      if (i % 2 == 0) launch.plan = plans[r].get();
      if (i % 2 != 0) launch.slices = 2;
      launch.call.callHash = 100 + static_cast<uint32_t>(i);
      all.push_back({&ranks.executor(r), launch});
    }
  launchMerged(all, ranks.stream(0));
  ranks.wait(0);
  // The sum of all inputs, times 3 for each call behind the first.
  std::vector<uint32_t> expected(40);
  for (int r = 0; r < 3; ++r) {
    const Memory memory = memoryOf(call, r, 1);
    std::vector<uint32_t> in(40);
    std::memcpy(in.data(), memory.bytes.data() + memory.in, 160);
    for (size_t i = 0; i < 40; ++i) expected[i] += 81 * in[i];
  }
  for (int r = 0; r < 3; ++r) {
    EXPECT_FALSE(ranks.executor(r).failure()) << failureOf(ranks, r).what();
    EXPECT_EQ(ranks.executor(r).completed(), 5U);
    std::vector<uint32_t> found(40);
    std::memcpy(found.data(), ranks.buffer(r).download().data() + memoryOf(call, r, 1).out, 160);
    EXPECT_EQ(found, expected) << "rank " << r;
  }
}

// Behind a call whose program is too long for shared memory, so that no lane has room for programs.
TEST(OneShot, WithoutRoomTakesSteps) {
  DeviceRanks ranks(optionsOf(2));
  const Call call = shotCall(2, 100);
  const auto expected = hostResult(call, 1, ranks.slotBytes(Wire::LL));
  const plan::Step copy{.sources = {plan::local(plan::Buffer::In, 0)},
                        .targets = {plan::local(plan::Buffer::Out, 0)}};
  const plan::Program copies{{{.channel = 0, .steps = std::vector<plan::Step>(100, copy)}}};
  ranks.begin(call, Wire::LL, 1);
  for (int r = 0; r < 2; ++r) {
    const auto plan = ranks.executor(r).prepareProgram(call.spec, copies);
    DeviceLaunch first = ranks.launchOf(r);
    first.plan = plan.get();
    const RankCall both[] = {{&ranks.executor(r), first}, {&ranks.executor(r), ranks.launchOf(r)}};
    launchMerged(both, ranks.stream(r));
    if (r == 1)
      for (int each = 0; each < 2; ++each) ranks.wait(each);
  }
  for (int r = 0; r < 2; ++r) EXPECT_EQ(ranks.buffer(r).download(), expected[r].bytes);
}

// It asks no program: its graphs are right when another one lies where that was.
TEST(OneShot, AsksNoProgram) {
  DeviceRanks ranks(optionsOf(2));
  const Call call = shotCall(2, 10);
  const auto expected = hostResult(call, 1, ranks.slotBytes(Wire::LL));
  ranks.begin(ringCall(2, 10), Wire::LL, 1);
  std::vector<std::unique_ptr<KernelPlan>> others;
  std::vector<cudaGraphExec_t> graphs;
  for (int r = 0; r < 2; ++r) {
    KernelExecutor& executor = ranks.executor(r);
    auto plan = executor.prepareProgram(call.spec, collectives::build(call.spec, r));
    DeviceLaunch launch = ranks.launchOf(r);
    launch.plan = plan.get();
    graphs.push_back(ranks.capture(r, [&] { launchOn(executor, launch, ranks.stream(r)); }));
    plan.reset();
    others.push_back(executor.prepareProgram(call.spec, {{{.channel = 0, .steps = {}}}}));
  }
  for (int r = 0; r < 2; ++r) TUTTI_CUDA(cudaGraphLaunch(graphs[r], ranks.stream(r)));
  for (int r = 0; r < 2; ++r) ranks.wait(r);
  for (int r = 0; r < 2; ++r) EXPECT_EQ(ranks.buffer(r).download(), expected[r].bytes);
  for (cudaGraphExec_t graph : graphs) cudaGraphExecDestroy(graph);
}

TEST(OneShot, Replays) {
  for (const uint64_t count : {2, 100})
    EXPECT_EQ(replayMany(optionsOf(2), shotCall(2, count), Wire::LL, 12), "");
}

// What a replay has counted is there: the host knows of its end by that alone.
TEST(OneShot, CountsAReplayWhenItsSumsAreThere) {
  DeviceRanks ranks(optionsOf(2));
  Call call = shotCall(2, 100);
  call.type = DataType::Int32;
  ranks.begin(call, Wire::LL, 1);
  const auto expected = hostResult(call, 1, ranks.slotBytes(Wire::LL));
  std::vector<cudaGraphExec_t> graphs;
  for (int r = 0; r < 2; ++r)
    graphs.push_back(ranks.capture(r, [&] {
      DeviceLaunch launch = ranks.launchOf(r);
      launch.isCaptured = true;
      ranks.launch(r, launch);
    }));
  for (int r = 0; r < 2; ++r) TUTTI_CUDA(cudaGraphLaunch(graphs[r], ranks.stream(r)));
  for (int r = 0; r < 2; ++r)
    while (ranks.executor(r).completed() == 0) std::this_thread::yield();
  for (int r = 0; r < 2; ++r) EXPECT_EQ(ranks.buffer(r).download(), expected[r].bytes);
  for (cudaGraphExec_t graph : graphs) cudaGraphExecDestroy(graph);
}

// ---- Failures

/// Launched on both ranks, on rank 1 as `change` makes it.
template <class Change>
void launchDiffering(DeviceRanks& ranks, uint64_t count, Change change) {
  ranks.begin(shotCall(2, count), Wire::LL, 1);
  DeviceLaunch launch = ranks.launchOf(1);
  change(launch);
  ranks.launch(0);
  launchOn(ranks.executor(1), launch, ranks.stream(1));
}

TEST(OneShotFaults, CallsThatDifferAreAMismatch) {
  DeviceRanks ranks(optionsOf(2));
  launchDiffering(ranks, 20, [](DeviceLaunch& launch) { launch.call.callHash = 1001; });
  expectNames(firstOf(ranks, ErrorCode::Mismatch),
              {"fingerprint 77", "fingerprint 1001", "rank 0", "rank 1", "operation 0"});
}

// Nothing is written then.
TEST(OneShotFaults, CountsThatDifferAreAMismatch) {
  DeviceRanks ranks(optionsOf(2));
  launchDiffering(ranks, 20, [](DeviceLaunch& launch) { launch.call.facts.count = 10; });
  expectNames(firstOf(ranks, ErrorCode::Mismatch), {"80 bytes", "40 bytes"});
  for (int r = 0; r < 2; ++r)
    EXPECT_EQ(ranks.buffer(r).download(), memoryOf(shotCall(2, 20), r, 1).bytes) << "rank " << r;
}

// Threads of the call before may still ask whether they may go on.
TEST(OneShotFaults, AMismatchBehindAnotherCallEndsAllThreads) {
  for (int i = 0; i < 10; ++i) {
    DeviceRanks ranks(optionsOf(2));
    ranks.begin(shotCall(2, 20), Wire::LL, 1);
    for (int r = 0; r < 2; ++r) {
      DeviceLaunch other = ranks.launchOf(r);
      other.call.callHash += static_cast<uint32_t>(r);
      const RankCall calls[] = {{&ranks.executor(r), ranks.launchOf(r)},
                                {&ranks.executor(r), other}};
      launchMerged(calls, ranks.stream(r));
    }
    expectNames(firstOf(ranks, ErrorCode::Mismatch), {"operation 1"});
  }
}

TEST(OneShotFaults, ASkippedOperationIsAMismatch) {
  DeviceRanks ranks(optionsOf(2));
  ranks.begin(shotCall(2, 3), Wire::LL, 1);
  expectSkippedIsMismatch(ranks);
}

TEST(OneShotFaults, AbortEndsAllRanks) {
  DeviceRanks ranks(optionsOf(3));
  ranks.begin(shotCall(3, 30), Wire::LL, 1);
  ranks.launch(0);
  ranks.launch(1);
  awaitCollective(ranks, 0, 0);
  ranks.executor(0).abort();
  for (int r = 0; r < 2; ++r) ranks.wait(r);
  EXPECT_EQ(failureOf(ranks, 0).code(), ErrorCode::Aborted);
  EXPECT_EQ(failureOf(ranks, 1).code(), ErrorCode::PeerLost);
  expectNames(failureOf(ranks, 1), {"rank 1, operation 0", "rank 0 has given up"});
}

TEST(OneShotFaults, WhatIsDiscardedTouchesNothing) {
  expectDiscardedTouchesNothing(shotCall(3, 10), Wire::LL);
}

TEST(OneShotFaults, NoWaitIsForEver) {
  DeviceRanksOptions options = optionsOf(2);
  options.executor.deadlineNs = 30'000'000;
  DeviceRanks ranks(options);
  ranks.begin(shotCall(2, 3), Wire::LL, 1);
  ranks.launch(1);
  ranks.wait(1);
  EXPECT_EQ(failureOf(ranks, 1).code(), ErrorCode::Timeout);
  expectNames(failureOf(ranks, 1), {"rank 1, operation 0", "waiting for rank 0"});
}

}  // namespace
}  // namespace tutti::tests
