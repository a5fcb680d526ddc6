// Groups: calls that start together, on several communicators and streams, and what becomes of
// those that are dropped.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include <tutti/tutti.h>

#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 4;

void sum(Communicator& c, int& x, StreamRef stream = {}) {
  c.allReduce({.send = &x, .recv = &x, .count = 1, .type = DataType::Int32}, stream);
}

// Two communicators of the same ranks, entered in opposite orders by different ranks: only a group,
// which starts both at once, can complete.
TEST(Groups, SeveralCommunicatorsOfOneThread) {
  auto a = Communicator::createLocal(kRanks), b = Communicator::createLocal(kRanks);
  runRanks(a, [&](Communicator& first) {
    Communicator& second = b[first.rank()];
    std::vector<int> x(100000, 1), y(100000, 2);
    for (int repeat = 0; repeat < 3; ++repeat) {
      Group group;
      const auto one = [&] {
        first.allReduce(
            {.send = x.data(), .recv = x.data(), .count = x.size(), .type = DataType::Int32});
      };
      const auto two = [&] {
        second.allReduce(
            {.send = y.data(), .recv = y.data(), .count = y.size(), .type = DataType::Int32});
      };
      if (first.rank() % 2) {
        one();
        two();
      } else {
        two();
        one();
      }
      group.end();
    }
    EXPECT_EQ(x[99999], 64);
    EXPECT_EQ(y[99999], 128);
  });
}

TEST(Groups, SeveralCallsOfOneCommunicatorAndStreams) {
  auto ranks = Communicator::createLocal(kRanks);
  runRanks(ranks, [](Communicator& c) {
    Stream stream;
    int x = 1, y = 2, z = 3;
    {
      Group outer;
      c.allReduce({.send = &x, .recv = &x, .count = 1, .type = DataType::Int32});
      {
        Group inner;
        c.allReduce({.send = &y, .recv = &y, .count = 1, .type = DataType::Int32}, stream);
      }
      c.allReduce({.send = &z, .recv = &z, .count = 1, .type = DataType::Int32});
      EXPECT_EQ(x, 1) << "nothing runs before the outermost group ends";
    }
    stream.synchronize();
    EXPECT_EQ(x, 4);
    EXPECT_EQ(y, 8);
    EXPECT_EQ(z, 12);
  });
}

// A dropped group leaves its communicators as they were: the next calls get the numbers that the
// dropped ones would have had.
TEST(Groups, DroppedCallsWereNeverMade) {
  for (const int size : {1, 3}) {
    auto ranks = Communicator::createLocal(size, {.timeout = 5s});
    runRanks(ranks, [&](Communicator& c) {
      Stream stream;
      int x = 1, y = 1;
      for (int repeat = 0; repeat < 3; ++repeat)
        EXPECT_THROW(
            {
              Group group;
              sum(c, x);
              sum(c, y, stream);
              throw std::runtime_error("on purpose");
            },
            std::runtime_error);
      EXPECT_EQ(x, 1);
      sum(c, x);
      sum(c, y, stream);
      stream.synchronize();
      EXPECT_EQ(x, size);
      EXPECT_EQ(y, size);
    });
  }
}

// Only the calls of the group that unwinds go: those of the one around it stay.
TEST(Groups, AnInnerGroupThatUnwindsTakesOnlyItsOwnCalls) {
  auto ranks = Communicator::createLocal(kRanks, {.timeout = 5s});
  runRanks(ranks, [](Communicator& c) {
    int before = 1, after = 2, dropped = 3;
    Group outer;
    sum(c, before);
    try {
      Group inner;
      sum(c, dropped);
      throw std::runtime_error("on purpose");
    } catch (const std::runtime_error&) {
    }
    sum(c, after);
    outer.end();
    EXPECT_EQ(before, kRanks);
    EXPECT_EQ(dropped, 3) << "a dropped call ran, on a buffer that may be gone";
    EXPECT_EQ(after, 2 * kRanks);
  });
}

// A group made while an exception passes by is not itself unwinding.
TEST(Groups, OneInsideADestructorDuringUnwindingIsEnded) {
  struct SumsOnExit {
    SumsOnExit(Communicator& communicator, int& value) : c(communicator), x(value) {}
    Communicator& c;
    int& x;
    ~SumsOnExit() {
      Group group;
      sum(c, x);
    }
  };
  auto ranks = Communicator::createLocal(kRanks, {.timeout = 5s});
  runRanks(ranks, [](Communicator& c) {
    int x = 1;
    EXPECT_THROW(
        {
          const SumsOnExit sums(c, x);
          throw std::runtime_error("on purpose");
        },
        std::runtime_error);
    EXPECT_EQ(x, kRanks);
    c.barrier();
  });
}

// A call that is refused inside a group is not part of it; the others are.
TEST(Groups, ARefusedCallLeavesTheGroupWhole) {
  auto ranks = Communicator::createLocal(2, {.timeout = 5s});
  runRanks(ranks, [](Communicator& c) {
    int x = 1, y = 1;
    Group group;
    sum(c, x);
    EXPECT_THROW(c.allReduce({.recv = &y, .count = 1, .type = DataType::Int32}), Error);
    sum(c, y);
    group.end();
    EXPECT_EQ(x, 2);
    EXPECT_EQ(y, 2);
    EXPECT_THROW(group.end(), Error);
  });
}

TEST(Groups, AStreamMayGoBeforeTheGroupEnds) {
  auto ranks = Communicator::createLocal(kRanks, {.timeout = 5s});
  runRanks(ranks, [](Communicator& c) {
    int x = 1;
    Group group;
    {
      Stream stream;
      sum(c, x, stream);
    }
    group.end();
    c.barrier();  // later in the order of calls than the sum, so the sum is done
    EXPECT_EQ(x, kRanks);
  });
}

// The group waits for all of its calls, also when one of them fails.
TEST(Groups, AFailureOfOneCommunicatorSparesTheOther) {
  auto good = Communicator::createLocal(2, {.timeout = 20s});
  auto bad = Communicator::createLocal(2, {.timeout = 20s});
  std::atomic<bool> collected{false};
  runRanks(good, [&](Communicator& c) {
    int x = 1;
    if (c.rank() == 1) {
      while (!collected) std::this_thread::sleep_for(1ms);
      bad[1].abort();
      sum(c, x);
    } else {
      Group group;
      bad[0].barrier();
      sum(c, x);
      collected = true;
      EXPECT_THROW(group.end(), Error);
    }
    EXPECT_EQ(x, 2);
    c.barrier();
  });
}

// The order of calls is not disturbed by calls that were only predicted.
TEST(Groups, ArePredictedAndNotMade) {
  auto ranks = Communicator::createLocal(kRanks, {.timeout = 20s});
  std::vector<float> data(1 << 20), other(1 << 20);
  const auto timeOf = [&](size_t count, int calls, int communicators, bool exchange = false) {
    Group group;
    for (int i = 0; i < calls; ++i)
      for (int r = 0; r < communicators; ++r)
        exchange ? ranks[r].send({.send = data.data(), .count = count, .peer = (r + 1) % kRanks})
                 : ranks[r].allReduce({.send = data.data(), .recv = other.data(), .count = count});
    return group.predict().count();
  };
  const double small = timeOf(2, 1, 1), large = timeOf(1 << 20, 1, 1);
  EXPECT_GT(small, 0);
  EXPECT_GT(large, 10 * small);
  EXPECT_DOUBLE_EQ(timeOf(1 << 20, 3, 1), 3 * large);
  EXPECT_DOUBLE_EQ(timeOf(1 << 20, 1, kRanks), large);
  EXPECT_GT(timeOf(2, 1, 1, true), 0);
  EXPECT_GT(timeOf(1 << 20, 1, 1, true), 10 * timeOf(2, 1, 1, true));
  {
    std::vector<Memory> windows(kRanks);
    runRanks(ranks, [&](Communicator& c) { windows[c.rank()] = c.allocate(8 << 20); });
    float* const mapped = static_cast<float*>(windows[0].data());
    Group group;
    ranks[0].allReduce({.send = mapped, .recv = mapped + (1 << 20), .count = 1 << 20});
    EXPECT_LT(group.predict().count(), large);
  }
  {
    Group wrong;
    ranks[0].send({.send = data.data(), .count = 1, .peer = 0});  // to itself, and not received
    EXPECT_EQ(outcomeOf([&] { wrong.predict(); }).code, ErrorCode::InvalidUsage);
  }
  {
    Group outer;
    {
      Group inner;
      ranks[0].allReduce({.send = data.data(), .recv = other.data(), .count = 2});
      EXPECT_EQ(inner.predict().count(), 0);
      EXPECT_THROW(inner.end(), Error);
    }
    EXPECT_DOUBLE_EQ(outer.predict().count(), small);
    EXPECT_THROW(outer.predict(), Error);
  }
  runRanks(ranks, [](Communicator& c) {
    int x = 1;
    sum(c, x);
    EXPECT_EQ(x, kRanks);
  });
}

}  // namespace
}  // namespace tutti::tests
