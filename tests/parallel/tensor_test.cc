// Tensors, arenas and counter-based random numbers.

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "parallel/tensor/arena.h"
#include "parallel/tensor/random.h"

namespace tutti::parallel {
namespace {

TEST(Shape, CountsAndPrints) {
  EXPECT_EQ(Shape({}).count(), 1);
  EXPECT_EQ(Shape({3, 0, 2}).count(), 0);
  EXPECT_EQ(Shape({3, 4})[-1], 4);
  EXPECT_EQ(Shape({3, 4}).describe(), "[3, 4]");
  EXPECT_THROW(Shape({-1}), Error);
  EXPECT_THROW(Shape({1, 1, 1, 1, 1}), Error);
}

TEST(Tensor, ViewsShareElementsAndRefuseWhatTheyCannotBe) {
  float data[24] = {};
  Tensor x(data, DType::Float32, {2, 3, 4});
  EXPECT_EQ(x.matrix().shape, Shape({6, 4}));
  EXPECT_EQ(x.rows(1, 1).as<float>(), data + 12);
  const Tensor part = x.matrix().columns(1, 2);
  EXPECT_FALSE(part.contiguous());
  EXPECT_EQ(part.as<float>(), data + 1);
  EXPECT_THROW(part.view({12}), Error);
  EXPECT_THROW(x.view({5}), Error);
  EXPECT_THROW(x.as<double>(), Error);
  EXPECT_THROW(x.rows(1, 2), Error);
}

TEST(Layout, PrintsTheSeedNotation) {
  Layout layout;
  layout.dims[1] = {Axis::Fsdp, Axis::Tensor};
  layout.partial = {Axis::Data};
  EXPECT_EQ(layout.describe(2), "[_, fsdp.tp] {dp}");
  EXPECT_FALSE(layout.replicated());
  EXPECT_TRUE(Layout{}.replicated());
}

TEST(Arena, ReturnsToZeroAndReusesItsMemory) {
  Arena arena("test", 4096);
  const Arena::Mark start = arena.mark();
  void* first = arena.allocate(DType::Float32, {7}).data;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  arena.allocate(DType::Float32, {5000});  // does not fit the first block
  const size_t held = arena.heldBytes(), peak = arena.peakBytes();
  EXPECT_EQ(peak, 64u + 20032u);
  for (int i = 0; i < 3; ++i) {
    arena.rewind(start);
    EXPECT_EQ(arena.usedBytes(), 0u);
    EXPECT_EQ(arena.allocate(DType::Float32, {7}).data, first);
    arena.allocate(DType::Float32, {5000});
  }
  EXPECT_EQ(arena.heldBytes(), held);
  EXPECT_EQ(arena.peakBytes(), peak);
  EXPECT_EQ(arena.allocate(DType::Float32, {0}).data, nullptr);
}

TEST(Arena, RetainMovesOverlappingElementsDown) {
  Arena arena("test");
  const Arena::Mark start = arena.mark();
  arena.allocate(DType::Int32, {16});
  Tensor x = arena.allocate(DType::Int32, {100});
  for (int i = 0; i < 100; ++i) x.as<int32_t>()[i] = i;
  const Tensor moved = arena.retain(start, x);
  EXPECT_EQ(arena.usedBytes(), 448u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(moved.as<int32_t>()[i], i);
}

TEST(Arena, RefusesToRewindForward) {
  Arena arena("test");
  arena.allocate(DType::Float32, {16});
  const Arena::Mark later = arena.mark();
  arena.rewind({});
  EXPECT_THROW(arena.rewind(later), Error);
}

TEST(Random, IsPhilox) {
  // Counter 0 and key 0 of Philox-4x32-10, from the paper's known-answer file, is 6627e8d5 e169c58d
  // ...; the name's hash is part of the counter here, so that only "another name, another stream"
  // and equality on every machine can be checked from outside.
  EXPECT_EQ(Random(1, "a").bits(5), Random(1, "a").bits(5));
  EXPECT_NE(Random(1, "a").bits(5), Random(1, "b").bits(5));
  EXPECT_NE(Random(1, "a").bits(5), Random(2, "a").bits(5));
  EXPECT_NE(Random(1, "a").bits(5), Random(1, "a").bits(5 + (uint64_t{1} << 32)));
}

TEST(Random, NormalHasItsMoments) {
  constexpr int n = 100000;
  const Random random(3, "moments");
  double sum = 0, squares = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const double x = random.normal(i);
    sum += x;
    squares += x * x;
  }
  EXPECT_LT(std::fabs(sum / n), 5 / std::sqrt(n));                // five standard errors
  EXPECT_LT(std::fabs(squares / n - 1), 5 * std::sqrt(2.0 / n));  // the variance of x^2 is 2
}

TEST(Random, BelowStaysBelow) {
  const Random random(4, "below");
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 200; ++i) seen.insert(random.below(i, 5));
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_EQ(*seen.rbegin(), 4u);
  EXPECT_THROW(random.below(0, 0), Error);
}

TEST(Permutation, IsOne) {
  for (uint64_t size : {1u, 2u, 3u, 4u, 5u, 63u, 64u, 65u, 1000u}) {
    const Permutation permutation(7, "p", size);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < size; ++i) seen.insert(permutation[i]);
    EXPECT_EQ(seen.size(), size);
    EXPECT_LT(*seen.rbegin(), size);
    EXPECT_THROW(permutation[size], Error);
  }
  int same = 0;
  for (uint64_t i = 0; i < 1000; ++i)
    same += Permutation(7, "p", 1000)[i] == Permutation(8, "p", 1000)[i];
  EXPECT_LT(same, 20);  // one is expected
}

}  // namespace
}  // namespace tutti::parallel
