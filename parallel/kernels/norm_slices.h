#pragma once

// Slices of rows of which a norm's backward leaves sums, for the gradients of its weights: those of
// a GPU's kernels, which a dry run of a GPU counts with.

#include <cstdint>

namespace tutti::parallel {

struct NormSlicesArgs;

/// Of rows, all alike but for the last, which may have fewer.
struct RowSlices {
  int32_t count, rows;  ///< slices; of each the rows
};

/// Of norms whose rows stay in registers: so many columns at most, in runs of as many elements.
inline constexpr int32_t kNormRun = 8, kMostNormColumns = 8192;

/// A block has a slice, whose rows it takes four at a time where they are narrow. There are to be
/// several blocks for each multiprocessor, and what they leave is to be little beside the rows.
inline constexpr int32_t kNormSliceRows = 16, kMostNormSlices = 1024;
/// By the number of rows alone, so that sums have the same bits on any GPU.
constexpr RowSlices normSlicesOf(int64_t rows) {
  constexpr int64_t kRowsAtOnce = 4, kMost = kMostNormSlices * kRowsAtOnce;
  const int64_t needed = (rows + kMost - 1) / kMost * kRowsAtOnce;
  const int64_t each = needed < kNormSliceRows ? kNormSliceRows : needed;
  return {static_cast<int32_t>((rows + each - 1) / each), static_cast<int32_t>(each)};
}

/// What Kernels::normSlices() of a GPU says.
int64_t normSlicesOf(const NormSlicesArgs& args);

}  // namespace tutti::parallel
