// Attention where queries do not see all keys before them, by the host's kernels: windows and
// documents, whole sequences and blocks, against the definition in float64; wide heads, which are
// computed in larger blocks and, in float32, by other products; what is counted and refused.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "parallel/kernels/dry/dry_kernels.h"
#include "parallel/kernels/host/blas.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/kernels/operands.h"
#include "parallel/tensor/random.h"
#include "tests/parallel/kernels/attention_pairs.h"

namespace tutti::parallel {
namespace {

class Reach : public testing::Test {
 protected:
  Tensor of(const std::vector<double>& values, const Shape& shape) {
    const Tensor x = arena_.allocate(type_, shape);
    if (type_ == DType::Float64)
      std::copy(values.begin(), values.end(), x.as<double>());
    else
      std::transform(values.begin(), values.end(), x.as<float>(),
                     [](double value) { return static_cast<float>(value); });
    return x;
  }
  /// Numbers that float32 has.
  std::vector<double> random(int64_t count) {
    const Random numbers(3, "operand");
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(static_cast<float>(numbers.normal(next_++)));
    return values;
  }
  /// Of float32 the six products that a split one is of are added, each sum is rounded by 2^-24 of
  /// it, and 2^-23.9 is left out.
  PairRounding rounding() const { return {.step = type_ == DType::Float64 ? 0x1p-52 : 0x1p-21}; }
  AttentionReach reachOf(const PairSizes& s) {
    if (s.starts.empty()) return {.window = s.window};
    const auto count = static_cast<int64_t>(s.starts.size());
    const Tensor starts = arena_.allocate(DType::Int32, {s.batch, count / s.batch});
    std::copy(s.starts.begin(), s.starts.end(), starts.as<int32_t>());
    return {.window = s.window, .starts = starts};
  }
  void expectNear(const Tensor& x, const Near& near, const char* what) {
    const double last = type_ == DType::Float64 ? 0x1p-52 : 0x1p-24;
    for (size_t i = 0; i < near.values.size(); ++i) {
      const double value = type_ == DType::Float64 ? x.as<double>()[i] : x.as<float>()[i];
      const double expected = near.values[i];
      if (value == expected) continue;  // infinities
      ASSERT_LE(std::fabs(value - expected),
                near.bounds[i] + last * std::max(1.0, std::fabs(expected)))
          << what << ", element " << i;
    }
  }

  /// Forward, and backward from what it gives.
  void expectTheDefinition(const PairSizes& s) {
    const Shape queries{s.batch, s.queries, s.heads * s.headWidth},
        keys{s.batch, s.keys, s.kvHeads * s.headWidth}, rows{s.batch, s.heads, s.queries};
    PairGiven given{random(s.queryCount()),
                    random(s.queryCount()),
                    random(s.keyCount()),
                    random(s.keyCount()),
                    {},
                    {}};
    const PairForward forward = pairForward(s, given.query, given.key, given.value, rounding());
    given.out = forward.out.values, given.logSumExp = forward.logSumExp.values;
    const Tensor query = of(given.query, queries), key = of(given.key, keys),
                 value = of(given.value, keys), out = of(random(s.queryCount()), queries),
                 sums = of(random(s.rowCount()), rows);
    kernels_.attentionBlock(
        {query, key, value, out, sums, s.heads, s.kvHeads, s.firstQuery, s.firstKey, reachOf(s)},
        arena_);
    expectNear(out, forward.out, "out");
    expectNear(sums, forward.logSumExp, "logSumExp");
    const auto nothing = [&](const Shape& shape) {
      return of(std::vector<double>(static_cast<size_t>(shape.count())), shape);
    };
    const Tensor dQuery = nothing(queries), dKey = nothing(keys), dValue = nothing(keys);
    kernels_.attentionBlockBackward(
        {of(given.dOut, queries), query, key, value, of(given.out, queries),
         of(given.logSumExp, rows), dQuery, dKey, dValue, s.heads, s.kvHeads, s.firstQuery,
         s.firstKey, reachOf(s)},
        arena_);
    const PairBackward backward = pairBackward(s, given, rounding());
    expectNear(dQuery, backward.dQuery, "dQuery");
    expectNear(dKey, backward.dKey, "dKey");
    expectNear(dValue, backward.dValue, "dValue");
  }

  HostKernels kernels_;
  Arena arena_{"test"};
  DType type_ = DType::Float64;
  uint64_t next_ = 0;
};

// Windows of one key, of less, as much and more than a block of queries, and of all.
TEST_F(Reach, WindowsAreTheDefinition) {
  for (const int64_t window : {1, 2, 31, 32, 33, 70, 100})
    expectTheDefinition({.batch = 2,
                         .queries = 70,
                         .keys = 70,
                         .heads = 4,
                         .kvHeads = 2,
                         .headWidth = 5,
                         .window = window});
}

TEST_F(Reach, DocumentsAreTheDefinition) {
  const PairSizes sizes{.batch = 2, .queries = 70, .keys = 70, .heads = 2, .headWidth = 6};
  for (const std::vector<int32_t>& starts : std::vector<std::vector<int32_t>>{
           {0, 0}, {0, 1, 32, 0, 33, 69}, {0, 40, 40, 41, 0, 70, 1000, 1000}})
    for (const int64_t window : {0, 20}) {
      PairSizes s = sizes;
      s.starts = starts, s.window = window;
      expectTheDefinition(s);
    }
}

// Of which the last queries see nothing, or the first, or those between.
TEST_F(Reach, BlocksAreTheDefinition) {
  for (const PairSizes& s :
       {PairSizes{.queries = 50, .keys = 40, .firstQuery = 40, .window = 30},
        PairSizes{.queries = 50, .keys = 40, .firstQuery = 90, .firstKey = 60, .window = 45},
        PairSizes{.queries = 50, .keys = 40, .firstQuery = 3, .firstKey = 20, .window = 9},
        PairSizes{
            .queries = 50, .keys = 40, .firstQuery = 40, .firstKey = 10, .starts = {0, 20, 48}}})
    expectTheDefinition({.batch = 1,
                         .queries = s.queries,
                         .keys = s.keys,
                         .heads = 2,
                         .kvHeads = 2,
                         .headWidth = 4,
                         .firstQuery = s.firstQuery,
                         .firstKey = s.firstKey,
                         .window = s.window,
                         .starts = s.starts});
}

// Queries that fill blocks, and that do not.
TEST_F(Reach, WideHeadsAreTheDefinition) {
  for (const DType type : {DType::Float64, DType::Float32})
    for (const bool split : {false, true})
      for (const int64_t headWidth : {64, 72})
        for (const int64_t window : {0, 40})
          for (const int64_t queries : {64, 150}) {
            type_ = type;
            host::setSplitProducts(split);
            expectTheDefinition({.queries = queries,
                                 .keys = queries + 3,
                                 .heads = 2,
                                 .headWidth = headWidth,
                                 .firstQuery = 3,
                                 .window = window});
          }
}

// The call of whole sequences writes over gradients, also those of keys that no query sees last.
TEST_F(Reach, WholeSequencesAreBlocks) {
  const PairSizes s{.batch = 2,
                    .queries = 70,
                    .keys = 70,
                    .heads = 4,
                    .kvHeads = 2,
                    .headWidth = 4,
                    .window = 20,
                    .starts = {0, 30, 0, 69}};
  const int64_t width = s.heads * s.headWidth, kvWidth = s.kvHeads * s.headWidth;
  const Shape rows{s.batch, s.queries, width}, all{s.batch, s.queries, width + 2 * kvWidth},
      scalars{s.batch, s.heads, s.queries};
  const Tensor qkv = of(random(all.count()), all), dOut = of(random(rows.count()), rows);
  const Tensor out = of(random(rows.count()), rows), sums = of(random(scalars.count()), scalars),
               dQkv = of(random(all.count()), all);
  kernels_.attention({qkv, out, sums, s.heads, s.kvHeads, reachOf(s)}, arena_);
  kernels_.attentionBackward({dOut, qkv, out, sums, dQkv, s.heads, s.kvHeads, reachOf(s)}, arena_);
  const auto part = [&](const Tensor& x, int64_t first, int64_t count) {
    const Tensor dense = arena_.allocate(DType::Float64, {s.batch, s.queries, count});
    kernels_.copy(x.part(2, first, count), dense);
    return std::vector<double>(dense.as<double>(), dense.as<double>() + dense.count());
  };
  const auto values = [](const Tensor& x) {
    return std::vector<double>(x.as<double>(), x.as<double>() + x.count());
  };
  const PairGiven given{values(dOut),
                        part(qkv, 0, width),
                        part(qkv, width, kvWidth),
                        part(qkv, width + kvWidth, kvWidth),
                        values(out),
                        values(sums)};
  expectNear(out, pairForward(s, given.query, given.key, given.value).out, "out");
  const PairBackward backward = pairBackward(s, given);
  const auto expectPart = [&](int64_t first, int64_t count, const Near& near, const char* what) {
    expectNear(of(part(dQkv, first, count), {s.batch, s.queries, count}), near, what);
  };
  expectPart(0, width, backward.dQuery, "dQuery");
  expectPart(width, kvWidth, backward.dKey, "dKey");
  expectPart(width + kvWidth, kvWidth, backward.dValue, "dValue");
}

TEST_F(Reach, PairsOfWindowsAreCounted) {
  for (const int64_t queries : {0, 1, 5, 9})
    for (const int64_t keys : {0, 1, 4, 12})
      for (int64_t ahead = -12; ahead <= 14; ++ahead)
        for (const int64_t window : {1, 3, 20}) {
          int64_t seen = 0;
          for (int64_t q = 0; q < queries; ++q)
            for (int64_t k = 0; k < keys; ++k) seen += k <= q + ahead && k > q + ahead - window;
          EXPECT_EQ(seenPairs(queries, keys, ahead, window), static_cast<double>(seen))
              << queries << " " << keys << " " << ahead << " " << window;
        }
  DryKernels dry;
  const Tensor q = of(std::vector<double>(48), {2, 3, 8}), lse = of(random(24), {2, 4, 3});
  dry.attentionBlock({q, q, q, q, lse, 4, 4, 11, 10, {.window = 2}}, arena_);
  EXPECT_EQ(dry.counts().at("attentionBlock").gemmFlops, 2 * 2 * 2 * 8 * (2 + 2 + 1));
}

TEST_F(Reach, WhatIsNoneIsRefused) {
  const Tensor x = of(random(48), {2, 3, 8}), lse = of(random(24), {2, 4, 3});
  const auto refused = [&](const AttentionReach& reach) {
    EXPECT_THROW(kernels_.attentionBlock({x, x, x, x, lse, 4, 4, 0, 0, reach}, arena_), Error);
    EXPECT_THROW(
        kernels_.attentionBlockBackward({x, x, x, x, x, lse, x, x, x, 4, 4, 0, 0, reach}, arena_),
        Error);
  };
  const Tensor starts = arena_.allocate(DType::Int32, {3, 2});
  refused({.window = -1});
  refused({.starts = starts});  // of three sequences
  refused({.starts = starts.view({6})});
  refused({.starts = of(random(4), {2, 2})});
}

}  // namespace
}  // namespace tutti::parallel
