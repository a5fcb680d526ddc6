// What calls read from the types and sizes of their buffers: results for every type, and all that
// is refused, when the program is compiled or by the call.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include <tutti/tutti.h>

#include "tests/support/local_ranks.h"
#include "tests/support/outcome.h"
#include "tests/support/text.h"

namespace tutti::tests {

/// Sixteen bits that hold the upper half of a float.
struct UpperHalf {
  uint16_t bits = 0;
};

}  // namespace tutti::tests

template <>
struct tutti::ElementType<tutti::tests::UpperHalf> : tutti::ElementIs<tutti::DataType::BFloat16> {};

namespace tutti::tests {
namespace {

struct Untyped {
  int a, b;
};

template <class From>
constexpr bool kReads = std::is_convertible_v<From, ConstBuffer>;
template <class From>
constexpr bool kWrites = std::is_convertible_v<From, MutableBuffer>;

static_assert(kReads<int*> && kReads<const int*> && kReads<std::nullptr_t>);
static_assert(kWrites<int*> && kWrites<double*> && kWrites<UpperHalf*> && kWrites<std::nullptr_t>);
static_assert(kWrites<void*> && kWrites<std::byte*> && kWrites<char*>);
static_assert(kReads<std::vector<float>&> && kReads<const std::array<float, 3>&>);
static_assert(kReads<std::span<const long>> && kReads<int (&)[4]> && kWrites<std::span<int>>);
static_assert(kReads<MutableBuffer> && kReads<MutableBuffer&> && kReads<const MutableBuffer&>);
static_assert(!kWrites<const int*> && !kWrites<const void*> && !kWrites<std::span<const int>>);
static_assert(!kWrites<const std::vector<int>&> && !kWrites<ConstBuffer>);
static_assert(!kReads<bool*> && !kReads<long double*> && !kReads<Untyped*> && !kReads<int**>);
static_assert(!kReads<volatile int*> && !kReads<std::vector<Untyped>&> && !kReads<wchar_t*>);
static_assert(!kReads<int> && !kReads<double> && !kReads<std::vector<bool>&>);
static_assert(IsMemory<const std::vector<bool>&>);  // refused by a deleted constructor
static_assert(!kReads<std::vector<float>> && !kWrites<std::vector<float>>);  // would dangle
static_assert(!std::is_constructible_v<ConstBuffer, bool*, size_t>);
static_assert(!std::is_constructible_v<MutableBuffer, const int*, size_t>);
static_assert(std::is_trivially_copyable_v<ConstBuffer> &&
              sizeof(MutableBuffer) == 3 * sizeof(void*));

void expectRefused(const std::string& mention, const std::function<void()>& call) {
  const Outcome outcome = outcomeOf(call);
  EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument) << outcome.text;
  EXPECT_TRUE(contains(outcome.text, mention)) << outcome.text;
}

/// A sum that only the right type gives: 250 for bytes too.
template <class T>
void checkSum(Communicator& c) {
  std::vector<T> x(5, static_cast<T>(25 * (c.rank() + 1)));
  c.allReduce({.send = x, .recv = x});
  for (const T value : x) EXPECT_EQ(value, static_cast<T>(75));
  T one = static_cast<T>(c.rank() + 1);
  c.allReduce({.send = &one, .recv = &one, .count = 1, .op = ReduceOp::Max});
  EXPECT_EQ(one, static_cast<T>(2));
}

TEST(TypedBuffers, ReduceByTheTypeOfTheirElements) {
  auto ranks = Communicator::createLocal(2);
  runRanks(ranks, [](Communicator& c) {
    checkSum<int8_t>(c), checkSum<uint8_t>(c), checkSum<int16_t>(c), checkSum<uint16_t>(c);
    checkSum<int>(c), checkSum<unsigned>(c), checkSum<long>(c), checkSum<unsigned long>(c);
    checkSum<long long>(c), checkSum<unsigned long long>(c), checkSum<float>(c),
        checkSum<double>(c);
    // 1.5 and -4: 0xc080 + 0x3fc0 as integers is another number than -2.5 is.
    UpperHalf half{static_cast<uint16_t>(c.rank() == 0 ? 0x3fc0 : 0xc080)};
    c.allReduce({.send = &half, .recv = &half, .count = 1});
    EXPECT_EQ(half.bits, 0xc020);
  });
}

TEST(TypedBuffers, UntypedMemoryTakesTheTypeOfTheCall) {
  auto ranks = Communicator::createLocal(2);
  runRanks(ranks, [](Communicator& c) {
    double x = 0.5 + c.rank();
    void* const memory = &x;
    c.allReduce({.send = memory, .recv = memory, .count = 1, .type = DataType::Float64});
    EXPECT_EQ(x, 2);
    c.allReduce({.send = memory, .recv = &x, .count = 1});  // one of them is enough
    EXPECT_EQ(x, 4);
    const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(&x), sizeof x);
    c.allReduce({.send = bytes, .recv = bytes, .type = DataType::Float64});
    EXPECT_EQ(x, 8);
  });
}

/// Each collective with spans alone.
void checkCountsOfSpans(Communicator& c) {
  const auto n = static_cast<size_t>(c.size()), me = static_cast<size_t>(c.rank());
  const std::array<int, 2> mine{c.rank(), 10 + c.rank()};
  std::vector<int> all(2 * n, -1), back(2);
  c.allGather({.send = mine, .recv = all});
  for (size_t r = 0; r < n; ++r) EXPECT_EQ(all[2 * r + 1], 10 + static_cast<int>(r));
  c.reduceScatter({.send = all, .recv = back});
  EXPECT_EQ(back, (std::vector<int>{c.rank() * c.size(), (10 + c.rank()) * c.size()}));
  c.allToAll({.send = all, .recv = all});
  EXPECT_EQ(all[1], 10 + c.rank());
  std::vector<int> gathered(c.rank() == 1 ? 2 * n : 0);
  c.gather({.send = mine, .recv = gathered, .root = 1});
  c.scatter({.send = gathered, .recv = back, .root = 1});
  EXPECT_EQ(back[1], 10 + c.rank());
  c.broadcast({.send = mine, .recv = back, .root = 1});
  EXPECT_EQ(back[0], 1);
  c.reduce({.send = mine, .recv = back, .root = 0});
  c.scan({.send = mine, .recv = back});
  EXPECT_EQ(back[0], c.rank() * (c.rank() + 1) / 2);
  std::vector<size_t> counts(n, 2);
  c.allGatherV({.send = mine, .recv = all, .counts = counts});
  c.reduceScatterV({.send = all, .recv = back, .counts = counts});
  EXPECT_EQ(back[0], c.rank() * c.size());
  std::vector<int> turned(2 * n);
  c.allToAllV({.send = all, .sendCounts = counts, .recv = turned, .recvCounts = counts});
  EXPECT_EQ(turned[0], c.rank());
  PreparedCall sum = c.prepare(AllReduceArgs{.send = mine, .recv = back});
  sum.start();
  EXPECT_EQ(back[0], c.size() * (c.size() - 1) / 2);
  Group group;
  c.send({.send = mine, .peer = static_cast<int>((me + 1) % n)});
  c.receive({.recv = back, .peer = static_cast<int>((me + n - 1) % n)});
  group.end();
  EXPECT_EQ(back[0], static_cast<int>((me + n - 1) % n));
}

TEST(TypedBuffers, SpansGiveTheCount) {
  auto ranks = Communicator::createLocal(3);
  runRanks(ranks, checkCountsOfSpans);
}

TEST(TypedBuffers, WindowsAndPuts) {
  auto ranks = Communicator::createLocal(2);
  runRanks(ranks, [](Communicator& c) {
    std::vector<double> inbox(3), values{1, 2, 3.0 + c.rank()};
    const int peer = 1 - c.rank();
    const Window window = c.window(inbox);
    EXPECT_EQ(window.bytes(peer), 24);
    c.put({.send = values, .peer = peer, .window = &window});
    const AwaitedSignals one{.peer = peer};
    c.waitSignals({.signals = {&one, 1}});
    EXPECT_EQ(inbox[2], 3.0 + peer);
    expectRefused("put: count 4 takes 4 elements of float64 in send, which has 3",
                  [&] { c.put({.send = values, .count = 4, .peer = peer, .window = &window}); });
    expectRefused("window: buffer has no size", [&] { c.window(inbox.data()); });
    c.barrier();
  });
}

TEST(TypedBuffers, WhatNothingSaysIsRefusedByTheFieldToSet) {
  auto ranks = Communicator::createLocal(1);
  Communicator& c = ranks[0];
  float x[4] = {};
  void* const memory = x;
  const size_t one[] = {1};
  expectRefused("set .type", [&] { c.allReduce({.send = memory, .recv = memory, .count = 1}); });
  expectRefused("set .type", [&] { c.allReduce({}); });
  expectRefused("set .type", [&] { c.send({.send = memory, .count = 1}); });
  expectRefused("set .type", [&] { c.prepare(BroadcastArgs{.recv = memory, .count = 1}); });
  expectRefused("set .type", [&] {
    c.allToAllV({.send = memory, .sendCounts = one, .recv = memory, .recvCounts = one});
  });
  expectRefused("set .count, or give send as a span",
                [&] { c.allReduce({.send = &x[0], .recv = &x[0]}); });
  expectRefused("set .count, or give recv as a span",
                [&] { c.broadcast({.send = x, .recv = &x[0]}); });
  expectRefused("set .count", [&] { c.allReduce({.type = DataType::Float32}); });
  const std::span<std::byte> bytes(static_cast<std::byte*>(memory), 7);
  expectRefused("7 bytes of send are not 1 block of float32: set .count",
                [&] { c.allReduce({.send = bytes, .recv = bytes, .type = DataType::Float32}); });
}

TEST(TypedBuffers, TypesThatContradictEachOtherAreRefusedByName) {
  auto ranks = Communicator::createLocal(1);
  Communicator& c = ranks[0];
  float x = 1;
  double y = 2;
  const size_t one[] = {1};
  expectRefused("send is float32, but recv has elements of float64",
                [&] { c.allReduce({.send = &x, .recv = &y, .count = 1}); });
  expectRefused("type is int32, but send has elements of float32", [&] {
    c.allReduce({.send = &x, .recv = &x, .count = 1, .type = DataType::Int32});
  });
  expectRefused("send is float32, but scalarAt has elements of float64", [&] {
    c.allReduce({.send = &x, .recv = &x, .count = 1, .op = ReduceOp::PreMulSum, .scalarAt = &y});
  });
  expectRefused("send is float32, but recv has elements of float64",
                [&] { c.allGatherV({.send = &x, .recv = &y, .counts = one}); });
  expectRefused("type is uint8, but recv has elements of float64",
                [&] { c.receive({.recv = &y, .count = 1, .type = DataType::UInt8}); });
  // The cast says that it is meant.
  c.allReduce({.send = static_cast<void*>(&x),
               .recv = static_cast<void*>(&x),
               .count = 1,
               .type = DataType::Int32});
  EXPECT_EQ(x, 1);
}

TEST(TypedBuffers, AScalarIsOneElement) {
  auto ranks = Communicator::createLocal(1);
  Communicator& c = ranks[0];
  std::vector<float> x{3};
  const auto with = [&](ConstBuffer scalarAt) {
    c.allReduce({.send = x, .recv = x, .op = ReduceOp::PreMulSum, .scalarAt = scalarAt});
  };
  std::vector<float> scalar{2};
  std::array<std::byte, 4> bytes{};
  std::memcpy(bytes.data(), scalar.data(), sizeof(float));
  with(scalar);
  with(std::span(bytes));
  EXPECT_EQ(x[0], 12);
  with(static_cast<const float*>(nullptr));  // not given: by scalar, which is 1
  EXPECT_EQ(x[0], 12);
  expectRefused("all_reduce: scalarAt has 3 bytes, and one element of float32 takes 4",
                [&] { with(std::span(bytes).first(3)); });
  scalar.clear();
  scalar.shrink_to_fit();
  expectRefused("scalarAt has 0 bytes", [&] { with(scalar); });
  expectRefused("scalarAt has 0 bytes", [&] { with(std::span<const float>()); });
  expectRefused("scalarAt is null with 4 bytes", [&] {
    with({static_cast<const float*>(nullptr), 1});
  });
  x.clear();  // which multiplies nothing
  with(std::span<const float>());
}

TEST(TypedBuffers, SpansThatAreTooSmallAreRefusedWithBothSizes) {
  auto ranks = Communicator::createLocal(2);
  runRanks(ranks, [](Communicator& c) {
    std::vector<double> three(3), four(4);
    const std::vector<size_t> counts{1, 3};
    expectRefused("all_reduce: count 4 takes 4 elements of float64 in recv, which has 3",
                  [&] { c.allReduce({.send = four, .recv = three}); });
    expectRefused("count 4 takes 4 elements of float64 in send, which has 3",
                  [&] { c.allReduce({.send = three, .recv = four, .count = 4}); });
    expectRefused("count 3 takes 6 elements of float64 in recv, which has 4",
                  [&] { c.allGather({.send = three, .recv = four}); });
    expectRefused("count 3 takes 6 elements of float64 in send, which has 4",
                  [&] { c.reduceScatter({.send = four, .recv = three}); });
    expectRefused("24 bytes of send are not 2 equal blocks of float64",
                  [&] { c.allToAll({.send = three, .recv = three}); });
    expectRefused("counts takes 4 elements of float64 in recv, which has 3",
                  [&] { c.allGatherV({.send = four, .recv = three, .counts = counts}); });
    expectRefused("sendCounts takes 4 elements of float64 in send, which has 3", [&] {
      c.allToAllV({.send = three, .sendCounts = counts, .recv = four, .recvCounts = counts});
    });
    expectRefused("count 5 takes 5 elements of float64 in send, which has 4",
                  [&] { c.send({.send = four, .count = 5, .peer = 1 - c.rank()}); });
    // A buffer that this rank does not use may have any size.
    c.reduce({.send = four, .recv = c.rank() == 0 ? four : three});
    c.allReduce({.send = three, .recv = four});  // one that has more than it takes, too
  });
}

}  // namespace
}  // namespace tutti::tests
