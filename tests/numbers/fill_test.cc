// The patterns that `tutti perf` checks with: that reductions of them are exact in every order and
// grouping, that they differ by rank, seed and place, and that the comparison counts what is wrong.

#include "src/numbers/fill.h"

#include <gtest/gtest.h>

#include <cstring>
#include <iostream>
#include <set>
#include <vector>

#include <tutti/error.h>
#include "src/numbers/fold.h"
#include "tests/numbers/reference.h"

namespace tutti::numbers {
namespace {

using Bytes = std::vector<char>;
constexpr uint64_t kSeed = 77;
constexpr size_t kCount = 3001;

std::vector<DataType> allTypes() {
  std::vector<DataType> types;
  for (int t = 0; t < kDataTypeCount; ++t) types.push_back(static_cast<DataType>(t));
  return types;
}

class Fill : public testing::TestWithParam<DataType> {
 protected:
  DataType type_ = GetParam();
  size_t size_ = sizeOf(type_);

  static void SetUpTestSuite() { std::cout << "seed " << kSeed << std::endl; }

  FillPattern pattern(ReduceOp op, int ranks) const { return {type_, op, kSeed, ranks}; }
  std::vector<Bytes> inputs(const FillPattern& p) const {
    std::vector<Bytes> result(static_cast<size_t>(p.ranks), Bytes(kCount * size_));
    for (int rank = 0; rank < p.ranks; ++rank)
      fillInput(p, rank, 0, kCount, result[static_cast<size_t>(rank)].data());
    return result;
  }
  std::vector<double> scalars(const FillPattern& p) const {
    std::vector<double> result;
    if (p.op == ReduceOp::PreMulSum)
      for (int rank = 0; rank < p.ranks; ++rank) result.push_back(premulScalar(p, rank));
    return result;
  }
  /// Folds the inputs, in the order given, into `out`.
  void foldAll(const FillPattern& p, FoldOrder order, const std::vector<const void*>& sources,
               const std::vector<double>& premultiply, Bytes& out) const {
    void* target = out.data();
    fold({.type = type_,
          .op = p.op,
          .order = order,
          .sources = sources,
          .targets = {&target, 1},
          .count = kCount,
          .premultiply = premultiply,
          .divideBy = p.op == ReduceOp::Avg ? p.ranks : 1});
  }
};

constexpr int kRanks[] = {1, 2, 3, 5, 7, 8, 9, 16, 33, 300};

TEST_P(Fill, ReductionsAreExactInEveryOrder) {
  for (const int ranks : kRanks)
    for (int o = 0; o < kReduceOpCount; ++o) {
      if (!isDefined(static_cast<ReduceOp>(o), type_)) continue;
      const FillPattern p = pattern(static_cast<ReduceOp>(o), ranks);
      const std::vector<Bytes> in = inputs(p);
      Bytes expected(kCount * size_), actual(kCount * size_);
      fillExpected(p, 0, kCount, expected.data());
      std::vector<const void*> forward;
      for (const Bytes& bytes : in) forward.push_back(bytes.data());
      const std::vector<const void*> backward(forward.rbegin(), forward.rend());
      const std::vector<double> premultiply = scalars(p);
      const std::vector<double> reversed(premultiply.rbegin(), premultiply.rend());
      for (const FoldOrder order : {FoldOrder::Listed, FoldOrder::Canonical}) {
        foldAll(p, order, forward, premultiply, actual);
        ASSERT_EQ(compare(type_, actual.data(), expected.data(), kCount).wrong, 0u)
            << toString(type_) << " " << toString(p.op) << " " << ranks;
        foldAll(p, order, backward, reversed, actual);
        ASSERT_EQ(compare(type_, actual.data(), expected.data(), kCount).wrong, 0u)
            << toString(type_) << " " << toString(p.op) << " " << ranks << " backward";
      }
    }
}

/// As a ring does it: one rank after the other, storing the type in between.
TEST_P(Fill, ReductionsAreExactStepByStep) {
  for (const int ranks : {2, 5, 8, 33})
    for (int o = 0; o < kReduceOpCount; ++o) {
      const auto op = static_cast<ReduceOp>(o);
      if (!isDefined(op, type_) || op == ReduceOp::Avg || op == ReduceOp::PreMulSum) continue;
      const FillPattern p = pattern(op, ranks);
      const std::vector<Bytes> in = inputs(p);
      Bytes expected(kCount * size_), actual = in[0];
      fillExpected(p, 0, kCount, expected.data());
      for (size_t rank = 1; rank < in.size(); ++rank)
        foldAll(p, FoldOrder::Listed, {actual.data(), in[rank].data()}, {}, actual);
      ASSERT_EQ(compare(type_, actual.data(), expected.data(), kCount).wrong, 0u)
          << toString(type_) << " " << toString(op) << " " << ranks;
    }
}

/// A sum in which a rank was forgotten or taken twice must not look right.
TEST_P(Fill, ForgottenAndRepeatedRanksShow) {
  for (const int ranks : {2, 3, 8}) {
    const FillPattern p = pattern(ReduceOp::Sum, ranks);
    const std::vector<Bytes> in = inputs(p);
    Bytes expected(kCount * size_), actual(kCount * size_);
    fillExpected(p, 0, kCount, expected.data());
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<const void*> sources;
      for (int other = 0; other < ranks; ++other)
        if (other != rank) sources.push_back(in[static_cast<size_t>(other)].data());
      foldAll(p, FoldOrder::Listed, sources, {}, actual);
      EXPECT_GT(compare(type_, actual.data(), expected.data(), kCount).wrong, kCount / 3) << rank;
      sources.push_back(in[static_cast<size_t>(rank)].data());
      sources.push_back(in[static_cast<size_t>(rank)].data());
      foldAll(p, FoldOrder::Listed, sources, {}, actual);
      EXPECT_GT(compare(type_, actual.data(), expected.data(), kCount).wrong, kCount / 3) << rank;
    }
  }
}

TEST_P(Fill, DependsOnRankSeedAndPlace) {
  FillPattern p = pattern(ReduceOp::Sum, 4);
  std::set<Bytes> seen;
  Bytes bytes(kCount * size_);
  for (int rank = 0; rank < 4; ++rank) {
    fillInput(p, rank, 0, kCount, bytes.data());
    EXPECT_TRUE(seen.insert(bytes).second);
    fillInput(p, rank, 4096, kCount, bytes.data());
    EXPECT_TRUE(seen.insert(bytes).second);
  }
  p.seed = kSeed + 1;
  fillInput(p, 0, 0, kCount, bytes.data());
  EXPECT_TRUE(seen.insert(bytes).second);
}

TEST_P(Fill, PartsEqualTheWholeAtAnyAddress) {
  const FillPattern p = pattern(ReduceOp::Avg, 3);
  const size_t count = 2 * kFillPeriod + 1000;
  Bytes input(count * size_), expected(count * size_);
  fillInput(p, 1, 0, count, input.data());
  fillExpected(p, 0, count, expected.data());
  for (const size_t first : {size_t{1}, size_t{999}, kFillPeriod - 1, kFillPeriod + 5}) {
    const size_t length = count - first;
    Bytes part(length * size_ + 1);
    fillInput(p, 1, first, length, part.data() + 1);
    EXPECT_EQ(std::memcmp(part.data() + 1, input.data() + first * size_, length * size_), 0);
    EXPECT_EQ(compareWithInput(p, 1, first, length, part.data() + 1).wrong, 0u);
    fillExpected(p, first, length, part.data() + 1);
    EXPECT_EQ(std::memcmp(part.data() + 1, expected.data() + first * size_, length * size_), 0);
    EXPECT_EQ(compareWithExpected(p, first, length, part.data() + 1).wrong, 0u);
  }
}

TEST_P(Fill, ComparisonCountsWrongElementsAndFindsTheFirst) {
  const FillPattern p = pattern(ReduceOp::Sum, 2);
  const size_t count = 2 * kFillPeriod + 10;
  Bytes good(count * size_);
  fillExpected(p, 0, count, good.data());
  Bytes bad = good;
  EXPECT_EQ(compareWithExpected(p, 0, count, bad.data()).wrong, 0u);
  EXPECT_EQ(compareWithExpected(p, 0, 0, nullptr).wrong, 0u);
  for (const size_t index : {count - 1, kFillPeriod + 3, kFillPeriod + 4, size_t{17}})
    bad[index * size_ + size_ - 1] ^= 1;
  const Comparison direct = compare(type_, bad.data(), good.data(), count);
  EXPECT_EQ(direct.wrong, 4u);
  EXPECT_EQ(direct.firstWrong, 17u);
  bad[17 * size_ + size_ - 1] ^= 1;
  const Comparison periodic = compareWithExpected(p, 0, count, bad.data());
  EXPECT_EQ(periodic.wrong, 3u);
  EXPECT_EQ(periodic.firstWrong, kFillPeriod + 3);
}

/// Known answers, so that fill and fold cannot be wrong together.
TEST_P(Fill, ExpectationIsTheReductionOfTheNumbers) {
  for (const int ranks : {1, 4, 9}) {
    const FillPattern p = pattern(ReduceOp::Sum, ranks);
    const std::vector<Bytes> in = inputs(p);
    Bytes sums(kCount * size_);
    fillExpected(p, 0, kCount, sums.data());
    bool varied = false;
    for (size_t i = 0; i < kCount; ++i) {
      double sum = 0;
      for (const Bytes& bytes : in) sum += reference::valueAt(type_, bytes.data(), i);
      ASSERT_EQ(reference::valueAt(type_, sums.data(), i), sum);
      varied = varied || sum != reference::valueAt(type_, sums.data(), 0);
    }
    EXPECT_TRUE(varied);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Fill, testing::ValuesIn(allTypes()),
                         [](const auto& instance) { return toString(instance.param); });

TEST(FillArguments, AreChecked) {
  char byte;
  EXPECT_THROW(fillInput({.ranks = 0}, 0, 0, 1, &byte), Error);
  EXPECT_THROW(fillInput({.ranks = 2}, -1, 0, 1, &byte), Error);
  EXPECT_THROW(fillExpected({.ranks = 0}, 0, 1, &byte), Error);
}

}  // namespace
}  // namespace tutti::numbers
