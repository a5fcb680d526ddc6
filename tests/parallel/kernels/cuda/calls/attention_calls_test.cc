// Attention of a GPU by the reference kernels against the host's: whole sequences, blocks of them
// and what is merged. ../attention has the tests of the others.

#include <cstdlib>

#include "tests/parallel/kernels/cuda/compared.h"

namespace tutti::parallel {
namespace {

/// Kernels that are made while it is there are plain.
class ReferenceAttention {
 public:
  ReferenceAttention() { setenv("TUTTI_ATTENTION", "reference", 1); }
  ~ReferenceAttention() { unsetenv("TUTTI_ATTENTION"); }
};

class CudaAttention : ReferenceAttention, public Compared {};
INSTANTIATE_TEST_SUITE_P(Types, CudaAttention, allTypes, nameOfTypes);

struct Case {
  int64_t batch, context, heads, kvHeads, headWidth;
};
// A query alone; one warp's keys and one more; heads of one lane's columns, of some lanes' and of
// more than a warp's, with and without heads that share keys.
constexpr Case kCases[] = {
    {2, 1, 1, 1, 1}, {1, 33, 2, 2, 5}, {2, 12, 4, 2, 8}, {1, 5, 2, 1, 130}, {1, 70, 4, 1, 64}};

/// A score errs by a rounding for each of its products, of which each is below 16, and for each of
/// their sums; a probability by as many, relatively, and sums over keys by one for each of these.
double roundings(int64_t headWidth, int64_t keys) {
  return 16.0 * static_cast<double>(headWidth + 8) + 8 * static_cast<double>(keys);
}

TEST_P(CudaAttention, WholeSequences) {
  for (const Case& c : kCases) {
    const int64_t width = c.heads * c.headWidth;
    const Shape rows{c.batch, c.context, width};
    const Operand qkv =
        random({c.batch, c.context, width + 2 * c.kvHeads * c.headWidth}, elements());
    const Operand out = result(rows, elements()),
                  logSumExp = result({c.batch, c.heads, c.context}, kept());
    both([&](const Side& side) {
      side.kernels.attention({side(qkv), side(out), side(logSumExp), c.heads, c.kvHeads}, unused_);
    });
    const double factor = roundings(c.headWidth, c.context);
    expectNear(out, factor, "out");
    expectNear(logSumExp, factor, "logSumExp");
    const Operand dOut = random(rows, elements()), sameOut = rounded(out, elements()),
                  sameSums = rounded(logSumExp, kept()), dQkv = result(qkv.gpu.shape, elements());
    both([&](const Side& side) {
      side.kernels.attentionBackward(
          {side(dOut), side(qkv), side(sameOut), side(sameSums), side(dQkv), c.heads, c.kvHeads},
          unused_);
    });
    // Of products of these, over all queries that see a key and all heads that it serves.
    expectNear(dQkv, 16 * factor * static_cast<double>(c.heads / c.kvHeads), "dQkv");
  }
}

struct Placed {
  int64_t queries, keys, firstQuery, firstKey;
};

/// Sequences in which nothing is adjacent to anything: rows of [batch, rows, columns] with gaps
/// before, behind and between them.
class CudaAttentionBlock : ReferenceAttention, public Compared {
 protected:
  Operand apart(const Operand& whole) const {
    const auto part = [](const Tensor& x) {
      return x.part(2, 3, x.shape[2] - 5).part(1, 1, x.shape[1] - 2);
    };
    return {part(whole.gpu), part(whole.exact)};
  }
  Shape around(int64_t rows, int64_t columns) const { return {2, rows + 2, columns + 5}; }
};
INSTANTIATE_TEST_SUITE_P(Types, CudaAttentionBlock, allTypes, nameOfTypes);

// Queries before all keys, behind all, among them; some that see none.
TEST_P(CudaAttentionBlock, OfSomeQueriesAndKeys) {
  constexpr int64_t kHeads = 4, kKvHeads = 2, kWidth = 6;
  for (const Placed& p :
       {Placed{7, 40, 36, 0}, Placed{5, 4, 0, 9}, Placed{9, 6, 4, 7}, Placed{3, 35, 100, 2}}) {
    const auto queries = [&] { return random(around(p.queries, kHeads * kWidth), elements()); };
    const auto keys = [&] { return random(around(p.keys, kKvHeads * kWidth), elements()); };
    const Operand query = queries(), key = keys(), value = keys(), out = queries(),
                  dOut = queries();
    const Operand sums = random({2, kHeads + 1, p.queries + 2}, kept());
    const auto ofRows = [&](const Operand& x) {
      return Operand{x.gpu.part(1, 1, kHeads).part(2, 1, p.queries),
                     x.exact.part(1, 1, kHeads).part(2, 1, p.queries)};
    };
    both([&](const Side& side) {
      side.kernels.attentionBlock(
          {side(apart(query)), side(apart(key)), side(apart(value)), side(apart(out)),
           side(ofRows(sums)), kHeads, kKvHeads, p.firstQuery, p.firstKey},
          unused_);
    });
    const double factor = roundings(kWidth, p.keys);
    expectNear(out, factor, "out");
    expectNear(sums, factor, "logSumExp");
    // Of sums that other keys have added to, so that no probability is above 1.
    const Operand larger =
        of(std::vector<double>(static_cast<size_t>(sums.gpu.count()), 8), sums.gpu.shape, kept());
    const Operand given = queries(), dQuery = queries(), dKey = keys(), dValue = keys();
    both([&](const Side& side) {
      side.kernels.attentionBlockBackward(
          {side(apart(dOut)), side(apart(query)), side(apart(key)), side(apart(value)),
           side(apart(given)), side(ofRows(larger)), side(apart(dQuery)), side(apart(dKey)),
           side(apart(dValue)), kHeads, kKvHeads, p.firstQuery, p.firstKey},
          unused_);
    });
    for (const Operand& d : {dQuery, dKey, dValue}) expectNear(d, 64 * factor, "gradient");
  }
}

// Of two parts; of one where the other saw no key; of none.
TEST_P(CudaAttentionBlock, Merged) {
  constexpr int64_t kHeads = 2, kWidth = 35, kQueries = 4;
  constexpr double kNone = -INFINITY;
  const Operand part = random(around(kQueries, kHeads * kWidth), elements()),
                out = random(around(kQueries, kHeads * kWidth), elements());
  const Shape shape{2, kHeads, kQueries};
  const Operand sums =
      of({1, kNone, 2, kNone, -3, 4, kNone, 0, 9, 1, 1, 1, 2, 3, 4, 5}, shape, kept());
  const Operand partSums =
      of({2, 1, kNone, kNone, -3, 4, 1, 0, 1, 9, 1, 1, 2, 3, 4, 5}, shape, kept());
  both([&](const Side& side) {
    side.kernels.attentionMerge(
        {side(apart(part)), side(partSums), side(apart(out)), side(sums), kHeads});
  });
  expectNear(out, 64, "out");
  expectNear(sums, 16, "logSumExp");
}

}  // namespace
}  // namespace tutti::parallel
