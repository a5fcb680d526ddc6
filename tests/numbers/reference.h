#pragma once

// What fold() must give, computed in another way: one element at a time, in float64 and 128-bit
// integers, rounding to a reduced type by searching the sorted table of all its values. It shares
// no code with src/numbers.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tutti/types.h>
#include "src/numbers/fold.h"

namespace tutti::numbers::reference {

/// The value of a floating-point type's bit pattern, from its definition: sign, exponent, fraction.
double decode(DataType type, uint64_t bits);

/// The nearest value's bit pattern, ties to even, by table. NaN gives the canonical pattern. Only
/// for the reduced types; `x` may be any float64.
uint64_t encodeReduced(DataType type, double x);

/// Bits of one folded element from the bits of its sources.
struct Scalars {
  std::vector<double> premultiply;
  int divideBy = 1;
};
uint64_t fold(DataType type, ReduceOp op, FoldOrder order, const std::vector<uint64_t>& sources,
              const Scalars& scalars);

uint64_t loadBits(DataType type, const void* data, size_t index);
/// One element as a number. 64-bit integers beyond 2^53 are rounded.
double valueAt(DataType type, const void* data, size_t index);
void storeBits(DataType type, void* data, size_t index, uint64_t bits);

}  // namespace tutti::numbers::reference
