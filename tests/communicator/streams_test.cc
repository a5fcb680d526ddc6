// Streams, events, and split.

#include <gtest/gtest.h>

#include <chrono>

#include <tutti/tutti.h>

#include "tests/support/local_ranks.h"
#include "tests/support/rank_processes.h"

namespace tutti::tests {
namespace {

constexpr int kRanks = 4;

TEST(Streams, RunInOrderAndOverlapTheCaller) {
  auto ranks = Communicator::createLocal(kRanks);
  runRanks(ranks, [](Communicator& c) {
    Stream stream;
    std::vector<float> x(10000), y(10000);
    for (int repeat = 0; repeat < 20; ++repeat) {
      stream.enqueue([&, repeat] { std::fill(x.begin(), x.end(), float(c.rank() + repeat)); });
      c.allReduce({.send = x.data(), .recv = y.data(), .count = x.size()}, stream);
      Event done;
      done.record(stream);
      done.synchronize();
      const float expected = kRanks * (kRanks - 1) / 2.0f + kRanks * repeat;
      ASSERT_EQ(y.front(), expected);
      ASSERT_EQ(y.back(), expected);
    }
    stream.synchronize();
    EXPECT_TRUE(stream.query());
  });
}

TEST(Streams, BlockingCallsWaitForEarlierOnesOfStreams) {
  auto ranks = Communicator::createLocal(kRanks);
  runRanks(ranks, [](Communicator& c) {
    Stream first, second;
    std::vector<int> a(5000, 1), b(5000, 2), d(5000, 3);
    const auto sum = [&](std::vector<int>& v, StreamRef stream) {
      c.allReduce({.send = v.data(), .recv = v.data(), .count = v.size(), .type = DataType::Int32},
                  stream);
    };
    for (int repeat = 0; repeat < 5; ++repeat) {
      sum(a, first);
      sum(b, second);
      sum(d, {});
    }
    first.synchronize();
    second.synchronize();
    EXPECT_EQ(a[4999], 1024);
    EXPECT_EQ(b[4999], 2048);
    EXPECT_EQ(d[4999], 3072);
  });
}

TEST(Streams, EventsOrderWorkAcrossStreams) {
  Stream producer, consumer;
  int value = 0, seen = -1;
  Event ready;
  producer.enqueue([&] { value = 42; });
  ready.record(producer);
  ready.wait(consumer);
  consumer.enqueue([&] { seen = value; });
  consumer.synchronize();
  EXPECT_EQ(seen, 42);
  EXPECT_TRUE(ready.query());
}

TEST(Streams, FailuresComeOutOfSynchronizeOnce) {
  Stream stream;
  stream.enqueue([] { throw Error(ErrorCode::Internal, "on purpose"); });
  int ran = 0;
  stream.enqueue([&] { ran = 1; });
  EXPECT_THROW(stream.synchronize(), Error);
  EXPECT_NO_THROW(stream.synchronize());
  EXPECT_EQ(ran, 1);
}

// One of six ranks: even and odd ones, in reverse order; rank 5 stays out. Then the parts are split
// again, and memory is shared within a part.
void splitByColourAndKey(Communicator& c) {
  auto part = c.split(c.rank() == 5 ? -1 : c.rank() % 2, -c.rank());
  ASSERT_EQ(part.has_value(), c.rank() != 5);
  if (part) {
    const int members = c.rank() % 2 ? 2 : 3;
    ASSERT_EQ(part->size(), members);
    ASSERT_EQ(part->rank(), c.rank() % 2 ? (3 - c.rank()) / 2 : (4 - c.rank()) / 2);
    const int expected = c.rank() % 2 ? 4 : 6;
    int sum = c.rank();
    part->allReduce({.send = &sum, .recv = &sum, .count = 1, .type = DataType::Int32});
    EXPECT_EQ(sum, expected);
    auto again = part->split(0, part->rank());
    ASSERT_TRUE(again);
    constexpr size_t kCount = 100000;
    Memory x = again->allocate(kCount * sizeof(int));
    std::fill_n(x.as<int>(), kCount, c.rank());
    again->allReduce(
        {.send = x.data(), .recv = x.data(), .count = kCount, .type = DataType::Int32});
    EXPECT_EQ(x.as<int>()[kCount - 1], expected);
  }
  c.barrier();
}

TEST(Split, ByColourAndKey) {
  auto ranks = Communicator::createLocal(6);
  runRanks(ranks, splitByColourAndKey);
}

TEST(Split, ByColourAndKeyBetweenProcesses) {
  RankProcesses ranks(6, [](const RankProcesses::Context& context) {
    Communicator c = context.join();
    splitByColourAndKey(c);
    return 0;
  });
  EXPECT_TRUE(ranks.allSucceed(std::chrono::seconds(30)));
}

}  // namespace
}  // namespace tutti::tests
