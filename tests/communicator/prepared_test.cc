// Prepared calls: made many times, on data that change, in order with other calls.

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <functional>
#include <string>
#include <vector>

#include <tutti/tutti.h>

#include "tests/support/local_ranks.h"

namespace tutti::tests {
namespace {

constexpr int kRanks = 3;
constexpr size_t kCount = 1000;
using Ints = std::vector<int32_t>;

/// Rank `rank`'s input in turn `turn`.
int32_t value(int rank, size_t i, int turn) {
  return static_cast<int32_t>(i % 97) + 1000 * rank + 100000 * turn;
}
int32_t sum(size_t i, int turn, int ranks = kRanks) {
  int32_t all = 0;
  for (int r = 0; r < ranks; ++r) all += value(r, i, turn);
  return all;
}

struct Prepared {
  const char* name;
  PreparedCall call;
  std::function<int32_t(size_t i, int turn)> expected;  // of the first kCount elements
  bool hasResult = true;
};

std::vector<Prepared> prepareAll(Communicator& c, Ints& in, Ints& out,
                                 const std::vector<size_t>& counts) {
  const int me = c.rank(), next = (me + 1) % kRanks, last = (me + kRanks - 1) % kRanks;
  const auto own = static_cast<size_t>(me) * kCount;
  constexpr auto kInt = DataType::Int32;
  std::vector<Prepared> all;
  const auto add = [&](const char* name, PreparedCall call, auto expected, bool hasResult = true) {
    all.push_back({name, std::move(call), expected, hasResult});
  };
  void* const recv = out.data();
  add("all_reduce",
      c.prepare(AllReduceArgs{.send = in.data(), .recv = recv, .count = kCount, .type = kInt}),
      [](size_t i, int turn) { return sum(i, turn); });
  add(
      "reduce",
      c.prepare(
          ReduceArgs{.send = in.data(), .recv = recv, .count = kCount, .type = kInt, .root = 1}),
      [](size_t i, int turn) { return sum(i, turn); }, me == 1);
  add("broadcast",
      c.prepare(
          BroadcastArgs{.send = in.data(), .recv = recv, .count = kCount, .type = kInt, .root = 2}),
      [](size_t i, int turn) { return value(2, i, turn); });
  add("all_gather",
      c.prepare(AllGatherArgs{.send = in.data(), .recv = recv, .count = kCount, .type = kInt}),
      [](size_t i, int turn) { return value(0, i, turn); });
  add("reduce_scatter",
      c.prepare(ReduceScatterArgs{.send = in.data(), .recv = recv, .count = kCount, .type = kInt}),
      [own](size_t i, int turn) { return sum(own + i, turn); });
  add("all_gather_v",
      c.prepare(AllGatherVArgs{.send = in.data(), .recv = recv, .counts = counts, .type = kInt}),
      [](size_t i, int turn) { return value(0, i, turn); });
  add("reduce_scatter_v",
      c.prepare(
          ReduceScatterVArgs{.send = in.data(), .recv = recv, .counts = counts, .type = kInt}),
      [own](size_t i, int turn) { return sum(own + i, turn); });
  add(
      "gather",
      c.prepare(
          GatherArgs{.send = in.data(), .recv = recv, .count = kCount, .type = kInt, .root = 2}),
      [](size_t i, int turn) { return value(0, i, turn); }, me == 2);
  add("scatter",
      c.prepare(ScatterArgs{.send = in.data(), .recv = recv, .count = kCount, .type = kInt}),
      [own](size_t i, int turn) { return value(0, own + i, turn); });
  add("alltoall",
      c.prepare(AllToAllArgs{.send = in.data(), .recv = recv, .count = kCount, .type = kInt}),
      [own](size_t i, int turn) { return value(0, own + i, turn); });
  add("scan", c.prepare(ScanArgs{.send = in.data(), .recv = recv, .count = kCount, .type = kInt}),
      [me](size_t i, int turn) { return sum(i, turn, me + 1); });
  add(
      "barrier", c.prepare(BarrierArgs{}), [](size_t, int) { return 0; }, false);
  add("alltoallv",
      c.prepare(AllToAllVArgs{.send = in.data(),
                              .sendCounts = counts,
                              .recv = recv,
                              .recvCounts = counts,
                              .type = kInt}),
      [own](size_t i, int turn) { return value(0, own + i, turn); });
  // A send of a size that the slots hold; the receive is next.
  add(
      "send", c.prepare(SendArgs{.send = in.data(), .count = kCount, .type = kInt, .peer = next}),
      [](size_t, int) { return 0; }, false);
  add("receive", c.prepare(ReceiveArgs{.recv = recv, .count = kCount, .type = kInt, .peer = last}),
      [last](size_t i, int turn) { return value(last, i, turn); });
  return all;
}

TEST(PreparedCalls, AreMadeAgainAndAgain) {
  auto ranks = Communicator::createLocal(kRanks);
  runRanks(ranks, [](Communicator& c) {
    Ints in(kRanks * kCount), out(kRanks * kCount);
    const std::vector<size_t> counts(kRanks, kCount);
    std::vector<Prepared> calls = prepareAll(c, in, out, counts);
    Stream stream;
    for (int turn = 0; turn < 20; ++turn)
      for (Prepared& p : calls) {
        for (size_t i = 0; i < in.size(); ++i) in[i] = value(c.rank(), i, turn);
        std::ranges::fill(out, -1);
        if (turn % 2 == 0) {
          p.call.start();
        } else {
          p.call.start(stream);
          stream.synchronize();
        }
        for (size_t i = 0; i < kCount && p.hasResult; ++i)
          ASSERT_EQ(out[i], p.expected(i, turn))
              << p.name << ", turn " << turn << ", rank " << c.rank() << ", element " << i;
        if (turn == 7 && p.name != std::string("send")) c.barrier();  // others in between
      }
  });
}

// The scalar's memory is read each time, and is of the call's type.
TEST(PreparedCalls, ReadAScalarInMemory) {
  auto ranks = Communicator::createLocal(kRanks);
  runRanks(ranks, [](Communicator& c) {
    int64_t x = 0;
    double y = 0;
    struct {
      char odd = 0;
      int64_t scalar = 0;
    } __attribute__((packed)) its;
    double fraction = 0;
    PreparedCall whole = c.prepare(AllReduceArgs{.send = &x,
                                                 .recv = &x,
                                                 .count = 1,
                                                 .type = DataType::Int64,
                                                 .op = ReduceOp::PreMulSum,
                                                 .scalar = 100,
                                                 .scalarAt = reinterpret_cast<char*>(&its) + 1});
    PreparedCall part = c.prepare(ScanArgs{.send = &y,
                                           .recv = &y,
                                           .count = 1,
                                           .type = DataType::Float64,
                                           .op = ReduceOp::PreMulSum,
                                           .scalarAt = &fraction});
    Stream stream;
    for (int turn = 1; turn < 5; ++turn) {
      x = c.rank() + 1;
      y = 1;
      its.scalar = turn;
      fraction = turn * 0.25;
      whole.start();
      part.start(stream);
      stream.synchronize();
      EXPECT_EQ(x, 6 * turn);
      EXPECT_EQ(y, (c.rank() + 1) * turn * 0.25);
    }
    // Nothing is not scaled.
    c.allReduce({.count = 0,
                 .type = DataType::Int64,
                 .op = ReduceOp::PreMulSum,
                 .scalarAt = reinterpret_cast<const void*>(8)});
    // Of other reductions it is nothing, as the scalar is.
    x = 2;
    c.allReduce({.send = &x,
                 .recv = &x,
                 .count = 1,
                 .type = DataType::Int64,
                 .scalarAt = reinterpret_cast<const void*>(8)});
    EXPECT_EQ(x, 6);
  });
}

TEST(PreparedCalls, JoinGroups) {
  auto ranks = Communicator::createLocal(kRanks);
  runRanks(ranks, [](Communicator& c) {
    Ints in(100000, c.rank()), out(100000), x(10, 1);
    PreparedCall give = c.prepare(SendArgs{.send = in.data(),
                                           .count = in.size(),
                                           .type = DataType::Int32,
                                           .peer = (c.rank() + 1) % kRanks});
    PreparedCall take = c.prepare(ReceiveArgs{.recv = out.data(),
                                              .count = out.size(),
                                              .type = DataType::Int32,
                                              .peer = (c.rank() + 2) % kRanks});
    PreparedCall reduce = c.prepare(
        AllReduceArgs{.send = x.data(), .recv = x.data(), .count = 10, .type = DataType::Int32});
    for (int turn = 0; turn < 5; ++turn) {
      Group group;
      give.start();
      take.start();
      reduce.start();
      group.end();
    }
    EXPECT_EQ(x[9], 3 * 3 * 3 * 3 * 3);
    EXPECT_EQ(out[99999], (c.rank() + 2) % kRanks);
  });
}

TEST(PreparedCalls, AreRefusedAndFailAsTheCallWould) {
  auto ranks = Communicator::createLocal(2);
  std::barrier<> both(2);
  runRanks(ranks, [&](Communicator& c) {
    const auto codeOf = [](const std::function<void()>& call) {
      try {
        call();
      } catch (const Error& e) {
        return e.code();
      }
      return ErrorCode::System;
    };
    int32_t x = 1;
    EXPECT_EQ(codeOf([&] { c.prepare(AllReduceArgs{.recv = &x, .count = 1}); }),
              ErrorCode::InvalidArgument);
    EXPECT_EQ(codeOf([&] { c.prepare(BroadcastArgs{.recv = &x, .count = 1, .root = 2}); }),
              ErrorCode::InvalidArgument);
    EXPECT_EQ(
        codeOf([&] { c.prepare(SendArgs{.send = &x, .count = 1, .peer = c.rank()}).start(); }),
        ErrorCode::InvalidUsage);
    PreparedCall reduce =
        c.prepare(AllReduceArgs{.send = &x, .recv = &x, .count = 1, .type = DataType::Int32});
    PreparedCall moved = std::move(reduce);
    moved.start();
    EXPECT_EQ(x, 2);
    both.arrive_and_wait();
    c.abort();
    EXPECT_EQ(codeOf([&] { moved.start(); }), ErrorCode::Aborted);
    EXPECT_EQ(codeOf([&] { c.prepare(BarrierArgs{}); }), ErrorCode::Aborted);
  });
}

}  // namespace
}  // namespace tutti::tests
