#pragma once

// Runs of neighbouring elements, counted row by row, and where the rows of operands are. The host
// makes these values; kernels ask them.

#include <bit>
#include <cstdint>

#include "parallel/kernels/cuda/elements.h"

namespace tutti::parallel::cuda {

/// Division of numbers below 2^31 by a constant, by a product and a shift (Granlund and Montgomery,
/// "Division by Invariant Integers using Multiplication").
struct Divider {
  uint32_t divisor, factor, shift;
};
constexpr Divider dividerBy(uint32_t divisor) {
  const auto shift = static_cast<uint32_t>(std::bit_width(divisor - 1));
  const uint64_t above = (uint64_t{1} << shift) - divisor;
  return {divisor, static_cast<uint32_t>((above << 32) / divisor + 1), shift};
}

/// Rows of up to three dimensions before the last one.
struct RunSpace {
  uint32_t runs;         ///< in all
  int32_t isContiguous;  ///< in all operands: rows do not matter
  Divider runsOfRow, middle, last;
};
/// An operand's rows: how far they are apart in each of these dimensions, in elements.
struct RunRows {
  Elements elements;
  int64_t strides[3];
};

inline RunSpace contiguousSpace(int64_t count, int32_t run) {
  const Divider one = dividerBy(1);
  return {static_cast<uint32_t>(count / run), 1, one, one, one};
}
/// The first extent follows from the number of runs.
inline RunSpace rowSpace(int64_t count, int64_t width, int64_t middle, int64_t last, int32_t run) {
  return {static_cast<uint32_t>(count / run), 0, dividerBy(static_cast<uint32_t>(width / run)),
          dividerBy(static_cast<uint32_t>(middle)), dividerBy(static_cast<uint32_t>(last))};
}

}  // namespace tutti::parallel::cuda
