#pragma once

// Runs of neighbouring elements, counted row by row, and where the rows of operands are. The host
// makes these values; kernels ask them.

#include <bit>
#include <cstdint>
#include <initializer_list>

#include "parallel/kernels/cuda/elements.h"

namespace tutti::parallel::cuda {

// What a kernel knows of its operands' formats when it is compiled: a Format as a number, for nvcc
// cannot name kernels by several values of an enum; or nothing, so that it looks at each.
inline constexpr int kAnyFormat = -1, kFloat = int(ElementFormat::Float32),
                     kBrain = int(ElementFormat::BFloat16), kHalf = int(ElementFormat::Float16);

/// The 16-bit format of all operands that are there, or kAnyFormat.
inline int narrowFormatOf(std::initializer_list<Elements> operands) {
  int common = kAnyFormat;
  for (const Elements& x : operands) {
    if (x.data == nullptr) continue;
    const bool isNarrow = x.format == ElementFormat::BFloat16 || x.format == ElementFormat::Float16;
    if (!isNarrow || (common != kAnyFormat && common != int(x.format))) return kAnyFormat;
    common = int(x.format);
  }
  return common;
}
/// Whether all that are there are of float32.
inline bool areFloats(std::initializer_list<Elements> operands) {
  for (const Elements& x : operands)
    if (x.data != nullptr && x.format != ElementFormat::Float32) return false;
  return true;
}

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
