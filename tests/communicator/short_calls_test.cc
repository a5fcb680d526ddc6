// Short collectives: calls alike, made again and again, whose messages are small and stay on the
// host. Their results, their refusals and their failures are those of any other call.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <tutti/tutti.h>

#include "src/communicator/inspection.h"
#include "tests/support/collective_checks.h"
#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/rank_processes.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

class ShortCalls : public ::testing::TestWithParam<int> {
 protected:
  std::vector<Communicator> ranks(CommunicatorOptions options = {.transport = "shm"}) {
    return Communicator::createLocal(GetParam(), options);
  }
};

/// Without this the other tests show nothing: ranks that call at the same time run short.
TEST_P(ShortCalls, RunShort) {
  auto all = ranks();
  std::atomic<uint64_t> runs = 0;
  runRanks(all, [&](Communicator& c) {
    int x = 1;
    for (int turn = 0; turn < 1000; ++turn)
      c.allReduce({.send = &x, .recv = &x, .count = 0, .type = DataType::Int32});
    for (int turn = 0; turn < 1000; ++turn) c.barrier();
    runs += communicator::Inspection::shortRuns(c);
  });
  EXPECT_GT(runs, 100);
}

TEST_P(ShortCalls, GiveTheSameResultsAgainAndAgain) {
  auto all = ranks();
  runRanks(all, [](Communicator& c) {
    for (const size_t count : {1, 2, 3, 250, 1000})
      for (int turn = 0; turn < 12; ++turn)
        for (const bool inPlace : {false, true}) {
          checkAll(c, {.count = count, .root = turn % c.size(), .inPlace = inPlace});
          checkAll(c, {.type = DataType::BFloat16,
                       .op = ReduceOp::Avg,
                       .count = count,
                       .inPlace = inPlace,
                       .misalign = 2});
          checkAll(c, {.type = DataType::Int64, .op = ReduceOp::Max, .count = count});
        }
  });
}

/// Whatever the messages and their order.
TEST_P(ShortCalls, RunByEveryAlgorithm) {
  for (const char* algorithm :
       {"ring", "double_tree", "recursive", "one_shot", "two_shot", "pairwise"}) {
    auto all = ranks({.algorithm = algorithm, .transport = "shm"});
    runRanks(all, [](Communicator& c) {
      for (const size_t count : {1, 7, 600})
        for (int turn = 0; turn < 6; ++turn) checkAll(c, {.count = count, .root = turn % c.size()});
    });
  }
}

TEST_P(ShortCalls, GiveTheBitsOfLongOnes) {
  auto all = ranks({.deterministic = true, .transport = "shm"});
  runRanks(all, [](Communicator& c) {
    std::vector<float> in(100), out(100), first;
    for (size_t i = 0; i < in.size(); ++i)
      in[i] = 1.0F / static_cast<float>(i + 3 * static_cast<size_t>(c.rank()) + 1);
    for (int turn = 0; turn < 10; ++turn) {
      std::ranges::fill(out, 0.0F);
      c.allReduce({.send = in, .recv = out});
      if (turn == 0) first = out;
      EXPECT_EQ(out, first) << turn;
    }
  });
}

/// Ranks enter at different times: those that are early wait as any call does.
TEST_P(ShortCalls, WaitForRanksThatAreLate) {
  auto all = ranks();
  runRanks(all, [](Communicator& c) {
    for (int turn = 0; turn < 30; ++turn) {
      if (turn % 5 == 4 && turn / 5 % c.size() == c.rank()) std::this_thread::sleep_for(5ms);
      int x = turn + c.rank(), sum = 0;
      c.allReduce({.send = &x, .recv = &sum, .count = 1});
      EXPECT_EQ(sum, turn * c.size() + c.size() * (c.size() - 1) / 2);
    }
  });
}

/// The same in the middle of every algorithm's steps: what a call has not done when it stops being
/// short is done behind it, with all that it holds by then.
TEST_P(ShortCalls, GoOnFromWhereTheyStop) {
  for (const char* algorithm : {"ring", "double_tree", "recursive", "pairwise"}) {
    auto all = ranks({.algorithm = algorithm, .transport = "shm"});
    runRanks(all, [](Communicator& c) {
      for (const auto check :
           {checkAllReduce, checkReduce, checkBroadcast, checkAllGather, checkReduceScatter,
            checkGather, checkScatter, checkAllToAll, checkScan})
        for (int late = 0; late < c.size(); ++late)
          // The second call of a kind is settled, and the third is short.
          for (const bool waits : {false, false, true}) {
            if (waits && late == c.rank()) std::this_thread::sleep_for(1ms);
            check(c, {.count = 40, .root = (late + 1) % c.size()});
          }
    });
  }
}

/// One that is prepared is short from the first time on, also where calls of more kinds than are
/// kept come between.
TEST_P(ShortCalls, StartPrepared) {
  auto all = ranks();
  std::atomic<uint64_t> prepared = 0;
  runRanks(all, [&](Communicator& c) {
    std::vector<int> in(3), out(3), other(40, 1);
    PreparedCall call = c.prepare(AllReduceArgs{.send = in, .recv = out});
    for (int turn = 0; turn < 300; ++turn) {
      for (size_t i = 0; i < in.size(); ++i) in[i] = turn + static_cast<int>(i) + c.rank();
      const uint64_t before = communicator::Inspection::shortRuns(c);
      call.start();
      prepared += communicator::Inspection::shortRuns(c) - before;
      const int size = c.size();
      for (int i = 0; i < 3; ++i)
        ASSERT_EQ(out[i], size * (turn + i) + size * (size - 1) / 2) << turn;
      c.broadcast({.send = other.data(), .recv = other.data(), .count = turn % 40U});
    }
  });
  EXPECT_GT(prepared, 50);
}

/// Streams, groups, prepared calls, and calls of other kinds between them.
TEST_P(ShortCalls, KeepTheirOrderAmongOthers) {
  auto all = ranks();
  runRanks(all, [](Communicator& c) {
    Stream stream;
    std::vector<int> one(1, 1), many(1000, c.rank()), manySums(1000);
    int sum = 0;
    PreparedCall prepared =
        c.prepare(AllReduceArgs{.send = one, .recv = &sum, .count = 1, .type = DataType::Int32});
    for (int turn = 0; turn < 40; ++turn) {
      one[0] = turn;
      sum = -1;
      switch (turn % 5) {
        case 0: prepared.start(); break;
        case 1: c.allReduce({.send = one, .recv = &sum}); break;
        case 2:
          c.allReduce({.send = one, .recv = &sum}, stream);
          c.allReduce({.send = many, .recv = manySums}, stream);
          stream.synchronize();
          break;
        case 3: {
          Group group;
          c.allReduce({.send = one, .recv = &sum});
          c.barrier();
          group.end();
          break;
        }
        case 4:
          c.barrier();
          c.allReduce({.send = one, .recv = &sum});
          break;
      }
      ASSERT_EQ(sum, turn * c.size()) << turn;
    }
  });
}

TEST_P(ShortCalls, AreRefusedLikeOthers) {
  auto all = ranks();
  runRanks(all, [](Communicator& c) {
    std::vector<int> data(64, 1), sums(32);
    const auto right = [&] {
      c.allReduce({.send = data.data(), .recv = sums.data(), .count = 32});
    };
    for (int turn = 0; turn < 5; ++turn) right();
    const auto refuses = [&](const AllReduceArgs& args, const char* why) {
      const Outcome outcome = outcomeOf([&] { c.allReduce(args); });
      EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument);
      EXPECT_NE(outcome.text.find(why), std::string::npos) << outcome.text;
    };
    refuses({.send = data.data(), .recv = data.data() + 8, .count = 32}, "overlap");
    refuses({.send = data.data(), .recv = std::span(sums).first(31), .count = 32}, "takes 32");
    refuses({.send = std::span(data).first(31), .recv = sums.data(), .count = 32}, "takes 32");
    refuses({.send = static_cast<int*>(nullptr), .recv = sums.data(), .count = 32}, "null");
    refuses({.send = data.data(), .recv = sums.data(), .count = 32, .type = DataType::Float32},
            "elements of");
    right();
    EXPECT_EQ(sums[31], c.size());
  });
}

TEST_P(ShortCalls, AreRecorded) {
  auto all = ranks();
  runRanks(all, [](Communicator& c) {
    int x = 1;
    for (int turn = 0; turn < 200; ++turn) c.allReduce({.send = &x, .recv = &x, .count = 1});
    const std::string said = c.describe();
    EXPECT_NE(said.find("operation 200 is done: all_reduce of 1 int32"), std::string::npos) << said;
  });
}

TEST_P(ShortCalls, NameWhoDisagrees) {
  auto all = ranks();
  for (Communicator& c : all) EXPECT_FALSE(c.asyncError());
  std::atomic<int> mismatches = 0;
  std::vector<std::jthread> threads;
  for (Communicator& c : all)
    threads.emplace_back([&] {
      int x[2] = {1, 1}, y[2];
      for (int turn = 0; turn < 10; ++turn) c.allReduce({.send = x, .recv = y, .count = 1});
      const size_t count = c.rank() == 0 ? 2 : 1;
      const Outcome outcome = outcomeOf([&] {
        c.allReduce({.send = x, .recv = y, .count = count});
        c.allReduce({.send = x, .recv = y, .count = count});
      });
      EXPECT_EQ(outcome.code, ErrorCode::Mismatch) << outcome.text;
      EXPECT_NE(outcome.text.find("all_reduce of 2 int32"), std::string::npos) << outcome.text;
      EXPECT_NE(outcome.text.find("all_reduce of 1 int32"), std::string::npos) << outcome.text;
      ++mismatches;
    });
  threads.clear();
  EXPECT_EQ(mismatches, GetParam());
}

/// Wherever the failure finds a short call, nothing of it is under way when it has thrown.
TEST_P(ShortCalls, EndWhereTheyAreWhenTheCommunicatorFails) {
  for (int turn = 0; turn < 16; ++turn) {
    auto all = ranks({.setupTimeout = 5s, .timeout = 5s, .transport = "shm"});
    std::atomic<int> ahead = GetParam();
    std::jthread aborts([&] {
      while (ahead > 0) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::microseconds(10 * turn));
      all[1].abort();
    });
    runRanks(all, [&](Communicator& c) {
      const int next = (c.rank() + 1) % c.size(), last = (c.rank() + c.size() - 1) % c.size();
      int x = 1, y = 0;
      const auto call = [&] {
        if (turn % 2 == 0) return c.allReduce({.send = &x, .recv = &y, .count = 1});
        Group group;
        c.send({.send = &x, .count = 1, .peer = next});
        c.receive({.recv = &y, .count = 1, .peer = last});
        group.end();
      };
      for (int i = 0; i < 5; ++i) call();
      --ahead;
      const Outcome outcome = outcomeOf([&] {
        while (true) call();
      });
      EXPECT_EQ(outcome.code, ErrorCode::Aborted) << outcome.text;
      EXPECT_EQ(c.shrink().size(), GetParam());
    });
  }
}

/// Round a ring, in a group; and from one rank to the next, without.
TEST_P(ShortCalls, SendAndReceive) {
  auto all = ranks();
  std::atomic<uint64_t> runs = 0;
  runRanks(all, [&](Communicator& c) {
    const int next = (c.rank() + 1) % c.size(), last = (c.rank() + c.size() - 1) % c.size();
    for (const size_t count : {0, 1, 11, 12, 13, 1000, 16000, 100000})
      for (int turn = 0; turn < 20; ++turn) {
        if (turn == 7 && c.rank() == 1) std::this_thread::sleep_for(3ms);
        const std::vector<int> sent(count, 1000 * turn + c.rank());
        std::vector<int> got(count, -1), expected(count, 1000 * turn + last);
        {
          Group group;
          c.receive({.recv = got, .peer = last});
          c.send({.send = sent, .peer = next});
          group.end();
        }
        ASSERT_EQ(got, expected) << count << " in turn " << turn;
        std::ranges::fill(got, -1);
        if (c.rank() == 0) c.send({.send = sent, .peer = 1});
        if (c.rank() == 1) {
          c.receive({.recv = got, .peer = 0});
          ASSERT_EQ(got, expected) << count << " in turn " << turn;
        }
      }
    runs += communicator::Inspection::shortRuns(c);
  });
  EXPECT_GT(runs, 20);
}

TEST_P(ShortCalls, SendsThatCannotBeRightAreRefused) {
  auto all = ranks();
  runRanks(all, [](Communicator& c) {
    std::vector<int> data(64);
    const int next = (c.rank() + 1) % c.size(), last = (c.rank() + c.size() - 1) % c.size();
    const Outcome overlapping = outcomeOf([&] {
      Group group;
      c.receive({.recv = data.data(), .count = 8, .peer = last});
      c.send({.send = data.data() + 7, .count = 8, .peer = next});
      group.end();
    });
    expectError(overlapping, ErrorCode::InvalidArgument, "overlapping buffers");
    expectError(outcomeOf([&] { c.send({.send = data, .peer = c.rank()}); }),
                ErrorCode::InvalidUsage, "to itself");
    expectError(outcomeOf([&] { c.send({.send = data, .peer = c.size()}); }),
                ErrorCode::InvalidArgument, "is not a rank");
    // To itself and to others, in one group.
    std::vector<int> own(4), others(4);
    const std::vector<int> mine(4, c.rank());
    Group group;
    c.send({.send = mine, .peer = c.rank()});
    c.receive({.recv = own, .peer = c.rank()});
    c.send({.send = mine, .peer = next});
    c.receive({.recv = others, .peer = last});
    group.end();
    EXPECT_EQ(own, mine);
    EXPECT_EQ(others, std::vector<int>(4, last));
  });
}

TEST_P(ShortCalls, ADroppedGroupSendsNothing) {
  auto all = ranks();
  runRanks(all, [](Communicator& c) {
    const int next = (c.rank() + 1) % c.size(), last = (c.rank() + c.size() - 1) % c.size();
    const int wrong = -1, right = c.rank();
    int got = -2;
    try {
      Group group;
      c.send({.send = &wrong, .count = 1, .peer = next});
      throw std::runtime_error("dropped");
    } catch (const std::runtime_error&) {
    }
    Group group;
    c.send({.send = &right, .count = 1, .peer = next});
    c.receive({.recv = &got, .count = 1, .peer = last});
    group.end();
    EXPECT_EQ(got, last);
  });
}

TEST_P(ShortCalls, TransfersThatDisagreeAreNamed) {
  auto all = ranks();
  runRanks(all, [](Communicator& c) {
    if (c.rank() > 1) return;
    std::vector<int> ints(4, 7);
    std::vector<float> floats(4, 9.0F);
    const Outcome outcome = outcomeOf([&] {
      if (c.rank() == 0) c.send({.send = ints, .peer = 1});
      if (c.rank() == 1) c.receive({.recv = floats, .peer = 0});
      if (c.rank() == 0) c.receive({.recv = ints, .peer = 1});
    });
    expectError(outcome, ErrorCode::Mismatch, "4 int32");
    expectError(outcome, ErrorCode::Mismatch, "4 float32");
    EXPECT_EQ(floats, std::vector<float>(4, 9.0F));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ShortCalls, ::testing::Values(2, 3, 5));

/// A rank dies in the middle of many: the others say so.
TEST(ShortCallsOfProcesses, NameARankThatHasDied) {
  RankProcesses ranks(3, [](const RankProcesses::Context& context) {
    Communicator c = context.join({.transport = "shm"});
    int x = 1, sum = 0;
    for (int turn = 0; turn < 100; ++turn) c.allReduce({.send = &x, .recv = &sum, .count = 1});
    if (c.rank() == 1) ::raise(SIGKILL);
    const Outcome outcome = outcomeOf([&] {
      for (int turn = 0; turn < 100; ++turn) c.allReduce({.send = &x, .recv = &sum, .count = 1});
    });
    EXPECT_EQ(outcome.code, ErrorCode::PeerLost) << outcome.text;
    EXPECT_NE(outcome.text.find("during operation 10"), std::string::npos) << outcome.text;
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  for (const int r : {0, 2}) EXPECT_EQ(ranks.wait(r, 20s), 0) << ranks.output(r);
}

}  // namespace
}  // namespace tutti::tests
