#pragma once

// Data whose reduction is known exactly, for tests and for `tutti perf`: every rank fills its input
// from (seed, rank, index) alone, every rank can compute what the collective must deliver, and the
// comparison is to the bit. The values are small integers, chosen by type and number of ranks so
// that sums and products are exact in any order and grouping, in every type, also with thousands of
// ranks and in float8: where there are more ranks than the type can count, most of an element's
// ranks contribute 0 to a sum and +-1 to a product. Only Avg rounds, once, as fold() does.
//
// Values repeat every kFillPeriod elements, a prime, so that anything displaced by a chunk, a slot
// or a page shows.

#include <cstddef>
#include <cstdint>

#include <tutti/types.h>

namespace tutti::numbers {

inline constexpr size_t kFillPeriod = 16381;

struct FillPattern {
  DataType type = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  uint64_t seed = 0;
  int ranks = 1;    ///< that contribute to the reduction
  int addends = 0;  ///< of which the first so many enter the expected result; 0: all
};

/// The scalar that `rank` passes with PreMulSum; 1 with every other op.
double premulScalar(const FillPattern& pattern, int rank);

/// Writes elements [first, first + count) of `rank`'s input to `out`, which has any alignment.
void fillInput(const FillPattern& pattern, int rank, size_t first, size_t count, void* out);

/// Writes what the reduction of all ranks' elements [first, first + count) must be.
void fillExpected(const FillPattern& pattern, size_t first, size_t count, void* out);

struct Comparison {
  size_t wrong = 0;       ///< elements that differ in any bit
  size_t firstWrong = 0;  ///< index of the first one; 0 when none is
};
Comparison compare(DataType type, const void* actual, const void* expected, size_t count);

/// compare() with fillExpected(), without a buffer of that size.
Comparison compareWithExpected(const FillPattern& pattern, size_t first, size_t count,
                               const void* actual);
/// compare() with fillInput(): what a collective that only moves data must deliver.
Comparison compareWithInput(const FillPattern& pattern, int rank, size_t first, size_t count,
                            const void* actual);

}  // namespace tutti::numbers
