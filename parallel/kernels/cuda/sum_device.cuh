#pragma once

// Squares of all elements of many tensors, added exactly: to the limbs of an ExactSum, which are
// integers, so that the order does not matter. A block takes kSumElements elements into limbs of
// its own in shared memory, settles their carries, and adds them to those in memory.
//
// Squares of float32 are first added up in a bin for each exponent: they are below 2^48, so that a
// bin has room for those of all the block's elements.
//
// Bound: additions in shared memory, which wait for each other where exponents are alike.

#include "parallel/kernels/cuda/elements_device.cuh"
#include "parallel/kernels/cuda/joined_device.cuh"
#include "parallel/kernels/cuda/launches.h"
#include "parallel/kernels/cuda/tables_device.cuh"

namespace tutti::parallel::cuda {

// Of ExactSum; sum.cu compares them.
inline constexpr int kLimbs = 132, kLimbBits = 32, kLowestBit = -2144;
inline constexpr int kBins = 256;  ///< of exponents; the last is that of what is not finite

using Word = unsigned long long;  // what atomicAdd() takes

/// Adds mantissa * 2^exponent, or subtracts it; a limb wraps below zero as integers do.
TUTTI_DEVICE void addScaled(Word* limbs, Word mantissa, int exponent, bool isNegative) {
  const int bit = exponent - kLowestBit, shift = bit % kLimbBits;
  const Word low = mantissa << shift, high = shift == 0 ? 0 : mantissa >> (64 - shift);
  const Word parts[3] = {low & 0xffffffffu, low >> kLimbBits, high};
#pragma unroll
  for (int i = 0; i < 3; ++i)
    if (parts[i] != 0)
      atomicAdd(&limbs[bit / kLimbBits + i], isNegative ? Word(0) - parts[i] : parts[i]);
}

/// Of a finite number.
TUTTI_DEVICE void addNumber(Word* limbs, double value) {
  const Word bits = Word(__double_as_longlong(value));
  const int exponent = int(bits >> 52 & 2047);
  const Word fraction = bits & ((Word(1) << 52) - 1);
  const Word mantissa = exponent == 0 ? fraction : fraction | Word(1) << 52;
  addScaled(limbs, mantissa, (exponent == 0 ? 1 : exponent) - 1075, bits >> 63 != 0);
}

/// Every limb but the last becomes 0 to 2^32 - 1, as often as blocks may be added then.
TUTTI_DEVICE void settle(Word* limbs) {
  long long carry = 0;
  for (int i = 0; i < kLimbs; ++i) {
    const long long limb = static_cast<long long>(limbs[i]) + carry;
    carry = limb >> kLimbBits;
    if (i + 1 < kLimbs)
      limbs[i] = Word(limb) & 0xffffffffu;
    else
      limbs[i] = Word(limb);
  }
}

/// Of this block's elements: those of this thread.
template <class T, class Visit>
TUTTI_DEVICE void forOwnElements(const AddSquares& x, const Visit& visit) {
  const auto& entry = entryOfBlock(x.table);
  const Elements elements{entry.operands[0], x.table.formats[0]};
  const int64_t first = firstOfBlock(entry, kSumElements);
  for (int64_t i = threadIdx.x; i < kSumElements && first + i < entry.count; i += blockDim.x)
    visit(load<T>(elements, first + i));
}

/// The block's sum, in limbs that are zero. Returns how many elements are not finite, as the host
/// counts them, in thread 0.
TUTTI_DEVICE Word sumOfBlock(const AddSquares& x, Word* limbs, float) {
  TUTTI_SHARED(Word, bins, [kBins]);
  for (int bin = int(threadIdx.x); bin < kBins; bin += int(blockDim.x)) bins[bin] = 0;
  __syncthreads();
  forOwnElements<float>(x, [&](float value) {
    const uint32_t bits = __float_as_uint(value), exponent = bits >> 23 & 255u;
    const Word mantissa = (bits & 0x7fffffu) | (exponent == 0 ? 0u : 1u << 23);
    // What is not finite may have no mantissa.
    atomicAdd(&bins[exponent], exponent == 255 ? 1 : mantissa * mantissa);
  });
  __syncthreads();
  for (int bin = int(threadIdx.x); bin < kBins - 1; bin += int(blockDim.x))
    if (bins[bin] != 0) addScaled(limbs, bins[bin], 2 * ((bin == 0 ? 1 : bin) - 150), false);
  return bins[kBins - 1] == 0 ? 0 : 1;
}

/// A square enters as the sum of its rounded value and of that value's error.
TUTTI_DEVICE Word sumOfBlock(const AddSquares& x, Word* limbs, double) {
  Word notFinite = 0;
  forOwnElements<double>(x, [&](double value) {
    const double square = __dmul_rn(value, value);
    if ((__double_as_longlong(square) >> 52 & 2047) == 2047) {
      ++notFinite;
      return;
    }
    addNumber(limbs, square);
    addNumber(limbs, fma(value, value, -square));
  });
  return joinBlock<Sum>(notFinite);
}

template <class T>
__global__ void addSquares(const __grid_constant__ AddSquares x) {
  TUTTI_SHARED(Word, limbs, [kLimbs]);
  for (int i = int(threadIdx.x); i < kLimbs; i += int(blockDim.x)) limbs[i] = 0;
  __syncthreads();
  const Word notFinite = sumOfBlock(x, limbs, T(0));
  __syncthreads();
  if (threadIdx.x == 0) {
    settle(limbs);
    if (notFinite != 0) atomicAdd(&x.limbs[kLimbs], notFinite);
  }
  __syncthreads();
  for (int i = int(threadIdx.x); i < kLimbs; i += int(blockDim.x))
    if (limbs[i] != 0) atomicAdd(&x.limbs[i], limbs[i]);
}

}  // namespace tutti::parallel::cuda
