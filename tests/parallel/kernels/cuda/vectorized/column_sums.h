#pragma once

// Calls of the kernels that sum the columns of matrices, for their tests.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/parallel/kernels/cuda/vectorized/pool.h"

namespace tutti::parallel::cuda {

struct Size {
  int32_t rows, width;
};

/// As the calls have them: biasGradient, rmsNormWeights, layerNormWeights.
enum class Sums { OfDy, Products, Both };
inline const char* nameOf(Sums sums) {
  return sums == Sums::OfDy ? "sums" : sums == Sums::Products ? "products" : "both";
}

inline cudaError_t start(MemoryBoundFamily family, const ColumnSums& x) {
  return enqueue(ChosenMemoryBound{family, x}, false, nullptr);
}

inline int32_t tilesOf(const ColumnSums& x) {
  const int32_t columns = runOf(x) == 4 ? 32 : 64;
  return (x.width + columns - 1) / columns;
}
/// So many, of which results must have as before, and behind which is NaN.
inline BlockArrivals arrivalsIn(Pool& pool, int32_t count) {
  const Elements zeros = pool.random({1, count, count}, ElementFormat::Float32, {0, 0});
  return {static_cast<uint32_t*>(zeros.data), count};
}

/// dy with a gap behind each row where `gap` is not zero; a counter for each tile.
inline ColumnSums sumsOf(Pool& pool, Sums sums, const Size& size, const Formats& formats,
                         bool accumulate, int32_t gap = 0, int64_t shift = 0) {
  const Rows all{size.rows, size.width, size.width}, one{1, size.width, size.width},
      numbers{1, size.rows, size.rows};
  const Rows gaps{size.rows, size.width, size.width + gap, shift};
  const bool isNormal = sums != Sums::OfDy;
  ColumnSums x{
      .dy = {pool.random(gaps, formats.kept), gaps.stride},
      .x = isNormal ? pool.random(all, formats.elements) : Elements{},
      .mean = sums == Sums::Both ? pool.random(numbers, ElementFormat::Float32) : Elements{},
      .rstd = isNormal ? pool.random(numbers, ElementFormat::Float32, {0.25, 2}) : Elements{},
      .sums = accumulate ? pool.random(one, formats.kept) : pool.result(one, formats.kept),
      .sumsOfDy = sums == Sums::Both ? pool.random(one, ElementFormat::Float32) : Elements{},
      .partial = nullptr,
      .arrivals = {},
      .rows = size.rows,
      .width = size.width,
      .accumulate = accumulate,
      .accumulateOfDy = !accumulate};
  if (const int64_t count = partialSumsOf(x); count > 0) x.partial = pool.scratch(count);
  if (runOf(x) != 0) x.arrivals = arrivalsIn(pool, tilesOf(x));
  return x;
}

/// Three calls, twice in turn, on the same counters and the same scratch; each adds to what is
/// there.
class CallsInTurn {
 public:
  explicit CallsInTurn(const Formats& formats)
      : counters_(arrivalsIn(pool_, 9)),
        calls_{sumsOf(pool_, Sums::OfDy, {300, 136}, formats, true),
               sumsOf(pool_, Sums::Both, {129, 264}, formats, true),
               sumsOf(pool_, Sums::Products, {8192, 8}, formats, true)} {
    for (ColumnSums& x : calls_) x.partial = calls_[1].partial;  // of these the largest
  }
  /// What they leave where each has a counter for each tile but so many; other numbers as before.
  std::vector<char> leave(int missing) {
    for (ColumnSums& x : calls_) x.arrivals = {counters_.counts, tilesOf(x) - missing};
    std::vector<char> bytes =
        pool_.compute([&](MemoryBoundFamily f) { return start(f); }).vectorized;
    std::vector<char> others = bytes;
    for (const ColumnSums& x : calls_)
      for (const Elements& each : {x.sums, x.sumsOfDy})
        if (each.data != nullptr) pool_.erase(others, each, x.width);
    EXPECT_TRUE(others == pool_.image()) << "writes beside its results";
    return bytes;
  }

 private:
  cudaError_t start(MemoryBoundFamily family) const {
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < 6 && family != MemoryBoundFamily::Reference && error == cudaSuccess; ++i)
      error = cuda::start(family, calls_[i % 3]);
    return error;
  }

  Pool pool_;
  const BlockArrivals counters_;
  ColumnSums calls_[3];
};

}  // namespace tutti::parallel::cuda
