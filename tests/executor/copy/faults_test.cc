// Ranks that disagree, are aborted, are late or fail: all streams end, the error names peer,
// operation and bytes, and nobody takes wrong bytes for right ones.

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "tests/executor/copy/copy_ranks.h"
#include "tests/executor/kernel/failures.h"

// What a rank copies after it has given up goes to slots that its peers may read at that moment.
// Nobody takes it for right, as these tests see; ThreadSanitizer would report it.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "race:foldPiece\nrace:copyRows\n"; }

namespace tutti::tests {
namespace {

using plan::Collective;

Call broadcastCall(int ranks, uint64_t count) {
  for (const plan::PlanSpec& spec : stagedPlans(ranks, 1))
    if (spec.collective == Collective::Broadcast) return {.spec = spec, .count = count};
  throw std::runtime_error("there is no broadcast");
}

TEST(CopyFaults, CallsThatDifferAreAMismatchOnBothSides) {
  CopyRanks ranks({.ranks = 2});
  ranks.run(ringCall(2, 10), 1);
  ranks.begin(ringCall(2, 300), 1);
  launchDifferentCalls(ranks);
  ranks.finishWithFailures();
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(ranks.failureOf(r).code(), ErrorCode::Mismatch);
    expectNames(ranks.failureOf(r), {"ranks disagree", "rank 0", "rank 1", "bytes and fingerprint",
                                     ", which sends a message of ", "operation 1: "});
  }
  EXPECT_THROW(ranks.launch(0), Error);
}

// Their caller's fingerprints say that they are alike. The root receives nothing, and is told. Once
// it is the message with the greater fingerprint that is waited for, once the other: streams wait
// for "at least".
TEST(CopyFaults, CountsThatDifferAreAMismatchOnBothSides) {
  for (const auto& [sent, awaited] : {std::pair(300, 200), std::pair(200, 300)}) {
    CopyRanks ranks({.ranks = 2});
    ranks.begin(broadcastCall(2, 300), 1);
    launchChanged(ranks, [sent = sent, awaited = awaited](CopyLaunch& launch, int r) {
      launch.call.facts.count =
          static_cast<uint64_t>(r == launch.plan->spec().root ? sent : awaited);
    });
    ranks.finishWithFailures();
    const std::string waits = base::message("of ", 4 * awaited, " bytes");
    for (int r = 0; r < 2; ++r) {
      EXPECT_EQ(ranks.failureOf(r).code(), ErrorCode::Mismatch) << ranks.failureOf(r).what();
      expectNames(ranks.failureOf(r), {"rank 0", "rank 1", waits.c_str()});
    }
  }
}

void expectAbortEndsAll(CopyRanks& ranks) {
  ranks.begin(ringCall(3, 9000), 1);
  ranks.launch(0);
  ranks.launch(1);
  // Until it waits for what will not come, and not for what is on its way.
  for (int looks = 0; looks < 50; looks = ranks.executor(1).underWay() ? looks + 1 : 0) {
    ranks.executor(1).watch();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(ranks.isIdle(0));
  EXPECT_FALSE(ranks.executor(0).failure());
  std::thread([&] { ranks.executor(0).abort(); }).join();
  ranks.finishWithFailures();
  EXPECT_EQ(ranks.failureOf(0).code(), ErrorCode::Aborted);
  EXPECT_EQ(ranks.failureOf(1).code(), ErrorCode::PeerLost);
  expectNames(ranks.failureOf(1), {"rank 1, operation 0: rank 0 has given up", "while this one"});
  // The last one has learned of it, too.
  EXPECT_EQ(ranks.failureOf(2).code(), ErrorCode::PeerLost);
  EXPECT_THROW(ranks.launch(2), Error);
  EXPECT_THROW(ranks.launch(0), Error);
}

TEST(CopyFaults, AbortEndsAllRanksWhenAPeerNeverComes) {
  CopyRanks ranks({.ranks = 3});
  expectAbortEndsAll(ranks);
}

TEST(CopyFaults, AbortEndsAllRanksThatTheHostJoins) {
  CopyRanks ranks({.ranks = 3, .byHost = true});
  expectAbortEndsAll(ranks);
}

void awaitIdle(CopyRanks& ranks, int rank) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!ranks.isIdle(rank) && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_TRUE(ranks.isIdle(rank)) << "rank " << rank;
}

// Also where slots are used several times, and nobody looks.
TEST(CopyFaults, AbortAloneEndsTheRank) {
  CopyRanks ranks({.ranks = 2});
  ranks.begin(ringCall(2, 20'000), 1);
  for (int i = 0; i < 3; ++i) ranks.launch(0);
  ranks.executor(0).abort();
  awaitIdle(ranks, 0);
}

// What a look reads is its own until it is done: ThreadSanitizer sees who else does.
TEST(CopyFaults, AbortInTheMiddleOfALookSaysWhatWasSeenBefore) {
  CopyRanks ranks({.ranks = 2});
  ranks.run(ringCall(2, 10), 1);
  ranks.executor(0).watch();
  TUTTI_CUDA(cudaDeviceSynchronize());  // nobody waits for anybody
  ranks.executor(0).watch();
  ranks.executor(0).abort();
  expectNames(ranks.failureOf(0), {"rank 0, operation 1: aborted"});
}

// What the other has sent before may have been overwritten since.
TEST(CopyFaults, NoOperationEndsWellBehindAPeersFailure) {
  CopyRanks ranks({.ranks = 2});
  ranks.begin(broadcastCall(2, 100), 1);
  const int root = ranks.launchOf(0).plan->spec().root;
  ranks.launch(root);
  awaitIdle(ranks, root);
  ranks.executor(root).abort();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ranks.launch(1 - root);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(ranks.isIdle(1 - root));
  ranks.finish();
  EXPECT_EQ(ranks.failureOf(1 - root).code(), ErrorCode::PeerLost);
}

// A graph that is replayed after the failure sends marks of another call: they are no disagreement.
TEST(CopyFaults, MessagesOfARankThatGaveUpAreNobodys) {
  if (devicesOf(2) < 2) GTEST_SKIP() << "the other rank's streams wait, and would be waited for";
  CopyRanks ranks({.ranks = 2});
  ranks.begin(ringCall(2, 300), 1);
  cudaGraph_t graph = captured(ranks, 0, [&] {
    CopyLaunch launch = ranks.launchOf(0);
    launch.call.callHash = 5;
    ranks.launch(0, launch);
  });
  cudaGraphExec_t exec = nullptr;
  TUTTI_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  ranks.launch(1);
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ranks.executor(1).watch();
  }
  ranks.executor(0).abort();
  TUTTI_CUDA(cudaDeviceSynchronize());  // device 0 is rank 0's alone, and has done all of it
  TUTTI_CUDA(cudaGraphLaunch(exec, ranks.stream(0)));
  awaitIdle(ranks, 0);
  ranks.finishWithFailures();
  EXPECT_EQ(ranks.failureOf(1).code(), ErrorCode::PeerLost) << ranks.failureOf(1).what();
  TUTTI_CUDA(cudaGraphExecDestroy(exec));
  TUTTI_CUDA(cudaGraphDestroy(graph));
}

TEST(CopyFaults, NoWaitIsForEver) {
  CopyRanksOptions options{.ranks = 2};
  options.executor.deadlineNs = 30'000'000;
  CopyRanks ranks(options);
  ranks.begin(ringCall(2, 300), 1);
  ranks.launch(1);
  ranks.finish();
  EXPECT_EQ(ranks.failureOf(1).code(), ErrorCode::Timeout);
  expectNames(ranks.failureOf(1), {"rank 1, operation 0", "deadline", "640 bytes", "rank 0"});
}

// A rank that works is not late, however often it is seen to wait for the same.
TEST(CopyFaults, ManyShortWaitsAreNotALongOne) {
  CopyRanksOptions options{.ranks = 2};
  options.executor.deadlineNs = 400'000'000;
  CopyRanks ranks(options);
  ranks.begin(ringCall(2, 300), 1);
  for (int i = 0; i < 60; ++i) {
    ranks.launch(1);
    for (int look = 0; look < 10; ++look) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ranks.executor(1).watch();
    }
    ranks.launch(0);
    while (!ranks.isIdle(1)) std::this_thread::yield();
  }
  ranks.finish();
  for (int r = 0; r < 2; ++r)
    EXPECT_FALSE(ranks.executor(r).failure()) << ranks.failureOf(r).what();
}

// Whatever a rank has enqueued still runs when it is aborted, and goes through its peers' slots. A
// rank whose operation ended without a failure has the right bytes.
TEST(CopyFaults, NothingWrongIsDelivered) {
  constexpr int kRanks = 4;
  if (!haveQueues(kRanks, 2)) GTEST_SKIP() << "it wants two devices";
  int good = 0, failed = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    std::mt19937_64 random(seed);
    CopyRanks ranks({.ranks = kRanks, .devices = 2});
    const Call call = seed % 2 == 0 ? broadcastCall(kRanks, 9000) : ringCall(kRanks, 9000);
    const auto expected = hostResult(call, seed, kCopyLayout.copySlotBytes);
    ranks.begin(call, seed);
    for (int r = 0; r < kRanks; ++r) ranks.launch(r);
    const auto end = base::Deadline::after(std::chrono::seconds(20));
    const auto allAreIdle = [&] {
      for (int r = 0; r < kRanks; ++r)
        if (!ranks.isIdle(r)) return false;
      return true;
    };
    if (seed == 1)  // too late for the others
      while (!allAreIdle() && !end.passed()) std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
    ranks.executor(static_cast<int>(random() % kRanks)).abort();
    std::vector<bool> isDone(kRanks);
    // Nobody is watched for a while: streams that can end do so with what they have.
    for (int look = 0; look < 20; ++look) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      for (int r = 0; r < kRanks; ++r) isDone[r] = ranks.isIdle(r);
    }
    for (int r = 0; r < kRanks; ++r) {
      const bool isGood = isDone[r] && !ranks.executor(r).failure();
      good += isGood;
      failed += !isGood;
      if (isGood) {
        EXPECT_EQ(ranks.buffer(r).download(ranks.stream(r)), expected[r].bytes) << "seed " << seed;
      }
    }
    ranks.finish();
  }
  EXPECT_GT(good, 0);
  EXPECT_GT(failed, 0);
  printf("%d ranks had ended, %d had not\n", good, failed);
}

// No buffer of a peer is written to, whatever has failed: not even one that was given back.
TEST(CopyFaults, PeersBuffersAreNotTouched) {
  CopyRanks ranks({.ranks = 2, .devices = 1});
  const Call call = ringCall(2, 9000);
  ranks.begin(call, 1);
  ranks.launch(0);
  ranks.executor(0).abort();
  ranks.finish();
  EXPECT_EQ(ranks.buffer(1).download(), memoryOf(call, 1, 1).bytes);
}

TEST(CopyFaults, AnEndpointWithoutSlotsIsRefused) {
  transports::p2p::P2pLayout layout = kCopyLayout;
  layout.copySlotBytes = 0;
  EXPECT_THROW(CopyRanks({.ranks = 2, .layout = layout}), Error);
}

}  // namespace
}  // namespace tutti::tests
