// Attention in blocks: what blocks of keys give of some queries merges to what all of them give at
// once, and so do gradients, in float64 to rounding; and what goes with it: positions that are not
// 0, 1, 2, ..., and rows with gaps between them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "parallel/kernels/dry/dry_kernels.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/kernels/operands.h"
#include "parallel/sharding/sequence_cut.h"
#include "parallel/tensor/random.h"

namespace tutti::parallel {
namespace {

constexpr int64_t kBatch = 2, kContext = 77, kHeads = 6, kHeadWidth = 5;
constexpr double kNothing = -std::numeric_limits<double>::infinity();

class Blocks : public testing::Test {
 protected:
  Tensor make(const Shape& shape, DType type = DType::Float64) {
    const Tensor x = arena_.allocate(type, shape);
    kernels_.fillZero(x);
    return x;
  }
  /// Of size one or so.
  Tensor random(const Shape& shape, DType type = DType::Float64) {
    const Tensor x = arena_.allocate(DType::Float64, shape);
    const Random values(kSeed, "operand");
    for (int64_t i = 0; i < x.count(); ++i)
      x.as<double>()[i] = values.normal(static_cast<uint64_t>(next_ + i));
    next_ += x.count();
    if (type == DType::Float64) return x;
    const Tensor other = make(shape, type), wide = make(shape, DType::Float32);
    kernels_.copy(x, wide);
    kernels_.copy(wide, other);
    return other;
  }
  static double largest(const Tensor& x) {
    double most = 0;
    for (int64_t i = 0; i < x.count(); ++i) most = std::max(most, std::fabs(x.as<double>()[i]));
    return most;
  }
  /// The largest difference, over the largest element.
  double distance(const Tensor& a, const Tensor& b) {
    const Tensor x = make(a.shape), y = make(b.shape);
    kernels_.copy(a, x);
    kernels_.copy(b, y);
    const double size = largest(x);
    for (int64_t i = 0; i < x.count(); ++i) x.as<double>()[i] -= y.as<double>()[i];
    return largest(x) / size;
  }

  static constexpr uint64_t kSeed = 5;
  HostKernels kernels_;
  Arena arena_{"test"};
  int64_t next_ = 0;
};

struct Whole {
  int64_t kvHeads;
  Tensor qkv, out, logSumExp, dOut, dQkv;

  Tensor query(const Tensor& x) const { return x.part(2, 0, kHeads * kHeadWidth); }
  Tensor key(const Tensor& x) const { return x.part(2, kHeads * kHeadWidth, kvHeads * kHeadWidth); }
  Tensor value(const Tensor& x) const {
    return x.part(2, (kHeads + kvHeads) * kHeadWidth, kvHeads * kHeadWidth);
  }
};

/// Blocks of the queries and of the keys, [begin, end) of positions.
class BlocksOfAttention : public Blocks {
 protected:
  Whole whole(int64_t kvHeads, DType type = DType::Float64) {
    const Shape rows{kBatch, kContext, kHeads * kHeadWidth};
    const Shape all{kBatch, kContext, (kHeads + 2 * kvHeads) * kHeadWidth};
    const Whole w{kvHeads,
                  random(all, type),
                  make(rows, type),
                  make({kBatch, kHeads, kContext}, statisticsType(type)),
                  random(rows, type),
                  make(all, type)};
    kernels_.attention({w.qkv, w.out, w.logSumExp, kHeads, kvHeads}, arena_);
    kernels_.attentionBackward({w.dOut, w.qkv, w.out, w.logSumExp, w.dQkv, kHeads, kvHeads},
                               arena_);
    return w;
  }
  static Tensor rows(const Tensor& x, const Range& range) {
    return x.part(1, range.begin, range.count());
  }

  /// All of it by blocks, also those of which no query sees a key.
  void expectMerged(const Whole& w, const std::vector<Range>& queries,
                    const std::vector<Range>& keys, double bound) {
    const DType sums = statisticsType(w.qkv.type);
    const Tensor out = make(w.out.shape, sums), logSumExp = make(w.logSumExp.shape, sums);
    const Tensor dQkv = make(w.qkv.shape, sums);
    const auto minus = [&](const Tensor& x) {
      const Tensor wide = make(x.shape);
      std::fill_n(wide.as<double>(), wide.count(), kNothing);
      kernels_.copy(wide, x);
    };
    minus(logSumExp);
    for (const Range& q : queries)
      for (const Range& k : keys) {
        const Tensor part = make({kBatch, q.count(), kHeads * kHeadWidth}, sums);
        const Tensor partSums = make({kBatch, kHeads, q.count()}, sums);
        const AttentionBlockArgs block{rows(w.query(w.qkv), q),
                                       rows(w.key(w.qkv), k),
                                       rows(w.value(w.qkv), k),
                                       part,
                                       partSums,
                                       kHeads,
                                       w.kvHeads,
                                       q.begin,
                                       k.begin};
        kernels_.attentionBlock(block, arena_);
        kernels_.attentionMerge(
            {part, partSums, rows(out, q), logSumExp.part(2, q.begin, q.count()), kHeads});
      }
    EXPECT_LT(distance(w.out, out), bound);
    EXPECT_LT(distance(w.logSumExp, logSumExp), bound);
    for (const Range& q : queries)
      for (const Range& k : keys)
        kernels_.attentionBlockBackward(
            {rows(w.dOut, q), rows(w.query(w.qkv), q), rows(w.key(w.qkv), k),
             rows(w.value(w.qkv), k), rows(out, q), logSumExp.part(2, q.begin, q.count()),
             rows(w.query(dQkv), q), rows(w.key(dQkv), k), rows(w.value(dQkv), k), kHeads,
             w.kvHeads, q.begin, k.begin},
            arena_);
    EXPECT_LT(distance(w.dQkv, dQkv), bound);
  }
};

std::vector<Range> piecesOf(int64_t length, int count) {
  std::vector<Range> pieces;
  for (int i = 0; i < count; ++i) pieces.push_back(partOf(length, count, i));
  return pieces;
}

// Rounding is of 2^-53 for each of a hundred terms or so.
TEST_F(BlocksOfAttention, MergeToTheWhole) {
  for (const int64_t kvHeads : {6, 3, 1}) {
    const Whole w = whole(kvHeads);
    for (const int pieces : {1, 2, 5, 8})
      expectMerged(w, piecesOf(kContext, pieces), piecesOf(kContext, pieces), 1e-13);
    // Of other sizes and beginnings than each other, last to first, and none.
    auto keys = piecesOf(kContext, 7);
    std::reverse(keys.begin(), keys.end());
    keys.push_back({40, 40});
    expectMerged(w, piecesOf(kContext, 3), keys, 1e-13);
  }
}

// Sums of blocks are float32, and so nearer to the whole than a rounding of that.
TEST_F(BlocksOfAttention, OfBFloat16AreAddedUpInFloat32) {
  expectMerged(whole(3, DType::BFloat16), piecesOf(kContext, 4), piecesOf(kContext, 4), 0x1p-7);
}

TEST_F(BlocksOfAttention, OfNoKeyAreNothing) {
  const Whole w = whole(6);
  const Tensor out = random({kBatch, 4, kHeads * kHeadWidth});
  const Tensor logSumExp = make({kBatch, kHeads, 4});
  const Range early{10, 14}, late{12, 30};
  kernels_.attentionBlock({rows(w.query(w.qkv), early), rows(w.key(w.qkv), late),
                           rows(w.value(w.qkv), late), out, logSumExp, kHeads, kHeads, 10, 12},
                          arena_);
  for (int64_t q = 0; q < 4; ++q) {
    EXPECT_EQ(logSumExp.as<double>()[q] == kNothing, q < 2) << q;
    for (int64_t i = 0; i < kHeads * kHeadWidth; ++i)
      EXPECT_EQ(out.as<double>()[q * kHeads * kHeadWidth + i] == 0, q < 2) << q;
  }
  // Merged with something it changes nothing, whichever side it is on.
  const Tensor kept = make(out.shape), keptSums = make(logSumExp.shape);
  const Tensor none = make(out.shape), noSums = make(logSumExp.shape);
  std::fill_n(noSums.as<double>(), noSums.count(), kNothing);
  kernels_.copy(out, kept);
  kernels_.copy(logSumExp, keptSums);
  kernels_.attentionMerge({none, noSums, kept, keptSums, kHeads});
  kernels_.attentionMerge({kept, keptSums, none, noSums, kHeads});
  for (int64_t i = 0; i < out.count(); ++i) {
    EXPECT_EQ(kept.as<double>()[i], out.as<double>()[i]);
    EXPECT_EQ(none.as<double>()[i], out.as<double>()[i]);
  }
  for (int64_t i = 0; i < logSumExp.count(); ++i)
    EXPECT_EQ(noSums.as<double>()[i], logSumExp.as<double>()[i]);
}

TEST_F(BlocksOfAttention, MergingDoesNotOverflow) {
  const Tensor a = random({1, 1, 4}), b = random({1, 1, 4});
  const Tensor large = make({1, 1, 1}), larger = make({1, 1, 1}), kept = make(a.shape);
  large.as<double>()[0] = 1e5;
  larger.as<double>()[0] = 1e5 + std::log(3.0);
  kernels_.copy(a, kept);
  kernels_.attentionMerge({b, larger, kept, large, 1});
  EXPECT_NEAR(large.as<double>()[0], 1e5 + std::log(4.0), 1e-10);
  for (int64_t i = 0; i < 4; ++i)  // 2^-53 of the logarithms is 1e-11 of the weights
    EXPECT_NEAR(kept.as<double>()[i], a.as<double>()[i] / 4 + b.as<double>()[i] * 3 / 4, 1e-10);
}

TEST(SeenPairs, AreThoseOfTheMask) {
  for (const int64_t queries : {0, 1, 5, 9})
    for (const int64_t keys : {0, 1, 4, 9, 12})
      for (int64_t ahead = -12; ahead <= 14; ++ahead) {
        int64_t seen = 0;
        for (int64_t q = 0; q < queries; ++q)
          for (int64_t k = 0; k < keys; ++k) seen += k <= q + ahead;
        EXPECT_EQ(seenPairs(queries, keys, ahead), static_cast<double>(seen))
            << queries << " " << keys << " " << ahead;
      }
}

TEST_F(BlocksOfAttention, AreCountedByWhatIsSeen) {
  DryKernels dry;
  const Tensor q = make({2, 3, 8}), k = make({2, 5, 4}), lse = make({2, 4, 3});
  const auto scratchOf = [&](Kernels& kernels, bool back) {
    Arena scratch("scratch");
    if (back)
      kernels.attentionBlockBackward({q, q, k, k, q, lse, q, k, k, 4, 2, 11, 10}, scratch);
    else
      kernels.attentionBlock({q, k, k, q, lse, 4, 2, 11, 10}, scratch);
    return scratch.peakBytes();
  };
  for (const bool back : {false, true}) {
    EXPECT_GT(scratchOf(kernels_, back), 0U);
    EXPECT_EQ(scratchOf(dry, back), scratchOf(kernels_, back)) << back;
  }
  dry.reset();
  dry.attentionBlock({q, k, k, q, lse, 4, 2, 11, 10}, arena_);
  EXPECT_EQ(dry.counts().at("attentionBlock").gemmFlops, 2 * 2 * 2 * 8 * (2 + 3 + 4));
  dry.attentionBlockBackward({q, q, k, k, q, lse, q, k, k, 4, 2, 11, 10}, arena_);
  EXPECT_EQ(dry.counts().at("attentionBlockBackward").gemmFlops, 5 * 2 * 2 * 8 * (2 + 3 + 4));
}

// Some positions of a sequence, by themselves, are what they are of the whole.
TEST_F(Blocks, PositionsMayBeAnywhere) {
  const std::vector<int32_t> places{1, 2, 6, 4};
  const Tensor at(const_cast<int32_t*>(places.data()), DType::Int32, {4});
  const Tensor cosine = random({7, 2}), sine = random({7, 2}), x = random({2, 7, 9});
  const Tensor positions = random({7, 3}), tokens = random({5, 3});
  const auto pick = [&](const Tensor& all) {
    const Tensor some = make({all.shape[0], 4, all.shape[2]}, all.type);
    for (int64_t i = 0; i < 4; ++i)
      kernels_.copy(all.part(1, places[static_cast<size_t>(i)], 1), some.part(1, i, 1));
    return some;
  };
  Tensor some = pick(x);
  kernels_.rotary({.x = x, .cosine = cosine, .sine = sine, .heads = 2, .headWidth = 4});
  kernels_.rotary(
      {.x = some, .cosine = cosine, .sine = sine, .at = at, .heads = 2, .headWidth = 4});
  EXPECT_EQ(distance(some, pick(x)), 0);

  const Tensor ids = make({1, 7}, DType::Int32), y = make({1, 7, 3});
  for (int32_t t = 0; t < 7; ++t) ids.as<int32_t>()[t] = t % 5;
  const Tensor someIds = pick(ids.view({1, 7, 1})).view({1, 4});
  kernels_.embedding({ids, tokens, positions, y});
  some = make({1, 4, 3});
  kernels_.embedding({someIds, tokens, positions, some, at});
  EXPECT_EQ(distance(some, pick(y)), 0);

  const Tensor dTokens = make({5, 3}), dPositions = make({7, 3});
  kernels_.embeddingWeights({someIds, some, dTokens, dPositions, at});
  for (int64_t t = 0; t < 7; ++t) {
    const auto found = std::find(places.begin(), places.end(), t);
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_EQ(dPositions.as<double>()[t * 3 + i],
                found == places.end() ? 0 : some.as<double>()[(found - places.begin()) * 3 + i])
          << t;
  }
}

TEST_F(Blocks, CopiesAndSumsOfRowsWithGaps) {
  for (const DType type : {DType::Float64, DType::Float32, DType::BFloat16}) {
    const Tensor x = random({2, 5, 6}, type), y = make({2, 3, 9}, type);
    const Tensor from = x.part(1, 1, 3).part(2, 2, 4), to = y.part(2, 3, 4);
    kernels_.copy(from, to);
    kernels_.add(from, to);
    const Tensor wideX = make(x.shape), wideY = make(y.shape);
    kernels_.copy(x, wideX);
    kernels_.copy(y, wideY);
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t t = 0; t < 3; ++t)
        for (int64_t i = 0; i < 9; ++i) {
          const bool written = i >= 3 && i < 7;
          const double value = wideX.as<double>()[(b * 5 + t + 1) * 6 + (written ? i - 1 : 0)];
          EXPECT_EQ(wideY.as<double>()[(b * 3 + t) * 9 + i], written ? 2 * value : 0)
              << toString(type) << " " << b << " " << t << " " << i;
        }
  }
}

TEST(SequenceCut, GivesEachRankPiecesFromBothEnds) {
  for (const int ranks : {1, 2, 3, 4, 7})
    for (const int64_t length : {0, 1, 5, 12, 13, 64}) {
      const SequenceCut cut{length, ranks};
      std::vector<int> seen(static_cast<size_t>(length));
      int64_t most = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        int64_t own = 0;
        for (const Range& piece : cut.pieces(rank)) {
          own += piece.count();
          EXPECT_LE(piece.count(), cut.mostOfPiece());
          for (int64_t t = piece.begin; t < piece.end; ++t) ++seen[static_cast<size_t>(t)];
        }
        EXPECT_EQ(cut.count(rank), own);
        EXPECT_LE(cut.pieces(rank)[0].end, cut.pieces(rank)[1].begin);
        most = std::max(most, own);
      }
      EXPECT_EQ(cut.most(), most);
      EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), length);
    }
  EXPECT_EQ((SequenceCut{7, 2}.pieces(0)), (std::array<Range, 2>{{{0, 2}, {6, 7}}}));
}

}  // namespace
}  // namespace tutti::parallel
