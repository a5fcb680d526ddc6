#pragma once

// Squares of all elements of many tensors, added exactly: to the limbs of an ExactSum, which are
// integers, so that the order does not matter. A block takes kSumElements elements into limbs of
// its own in shared memory, and adds them to those in memory.
//
// Squares of float32 are below 2^48. Those whose exponents are within a window a thread adds up in
// three registers of 64 bits; others are added to a bin for each exponent, in shared memory, which
// has room for those of all the block's elements. Limbs of a block are below 2^42 then, so those in
// memory have room for 2^36 elements, more than a GPU has. Of float64 carries are settled first.
//
// Bound: the memory's bandwidth, 4 bytes an element. Numbers outside of the window, 2^20 times less
// than the largest of a warp's first, or 2^4 times more, cost additions in shared memory, which
// wait for each other where exponents are alike.

#include <type_traits>

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

/// Of this block's elements: those of this thread, kAhead at a time, of which those beyond the last
/// one are zero. `at` gives the block's i-th element. All threads of a block call visit() as often.
inline constexpr int kAhead = 8;
template <class T, class At, class Visit>
TUTTI_DEVICE void forOwn(int64_t end, const At& at, const Visit& visit) {
  constexpr int64_t kBatch = kAhead * kThreads;
  const auto thread = int64_t(threadIdx.x);
#pragma unroll 1
  for (int64_t batch = 0; batch < end; batch += kBatch) {
    T values[kAhead];
    if (batch + kBatch <= end) {
#pragma unroll
      for (int j = 0; j < kAhead; ++j) values[j] = at(batch + thread + j * kThreads);
    } else {
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const int64_t i = batch + thread + j * kThreads;
        values[j] = i < end ? at(i) : T(0);
      }
    }
    visit(values);
  }
}

template <class T, class Visit>
TUTTI_DEVICE void forOwnElements(const AddSquares& x, const Visit& visit) {
  const auto& entry = entryOfBlock(x.table);
  const int64_t first = firstOfBlock(entry, kSumElements);
  const int64_t end = min(kSumElements, entry.count - first);
  const Elements elements = movedBy({entry.operands[0], x.table.formats[0]}, first);
  if constexpr (std::is_same_v<T, float>)
    if (elements.format == ElementFormat::Float32) {
      const auto* const own = static_cast<const float*>(elements.data);
      return forOwn<T>(
          end, [&](int64_t i) { return own[i]; }, visit);
    }
  forOwn<T>(
      end, [&](int64_t i) { return load<T>(elements, i); }, visit);
}

/// The significand of a float32 and its exponent, of a denormal number the lowest one.
struct Parted {
  uint32_t mantissa;
  int exponent;
  TUTTI_DEVICE explicit Parted(float value) {
    const uint32_t bits = __float_as_uint(value);
    const int field = int(bits >> 23 & 255u);
    mantissa = (bits & 0x7fffffu) | (field == 0 ? 0u : 1u << 23);
    exponent = field == 0 ? 1 : field;
  }
  TUTTI_DEVICE bool isFinite() const { return exponent != kBins - 1; }
  TUTTI_DEVICE Word square() const { return Word(mantissa) * mantissa; }
};

/// A sum of squares of numbers whose exponents are within kExponents from `lowest` on. In units of
/// 2^(lowest - 150) such a number has 47 bits, which are two halves of 24: it is h 2^24 + l, and of
/// ll, hl and hh a register of 64 bits each has room for the 2^12 of a warp.
struct SquaresOfWindow {
  static constexpr int kExponents = 24;
  int lowest;
  Word low = 0, middle = 0, high = 0;
  TUTTI_DEVICE explicit SquaresOfWindow(int lowestExponent) : lowest(lowestExponent) {}
  TUTTI_DEVICE bool has(const Parted& x) const {
    return uint32_t(x.exponent - lowest) < uint32_t(kExponents) || x.mantissa == 0;
  }
  /// One that the window has.
  TUTTI_DEVICE void add(const Parted& x) {
    const int shift = x.mantissa == 0 ? 0 : x.exponent - lowest;
    const uint32_t l = x.mantissa << shift & 0xffffffu, h = x.mantissa >> (24 - shift);
    low += Word(l) * l;
    middle += Word(h) * l;
    high += Word(h) * h;
  }
  /// In every lane those of all; the window is the same in all.
  TUTTI_DEVICE void joinWarp() {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
      low += __shfl_xor_sync(kAllLanes, low, mask);
      middle += __shfl_xor_sync(kAllLanes, middle, mask);
      high += __shfl_xor_sync(kAllLanes, high, mask);
    }
  }
  TUTTI_DEVICE void addTo(Word* limbs) const {
    const int unit = 2 * (lowest - 150);
    if (low != 0) addScaled(limbs, low, unit, false);
    if (middle != 0) addScaled(limbs, middle, unit + 25, false);
    if (high != 0) addScaled(limbs, high, unit + 48, false);
  }
};

/// A window that reaches to 2^kSpare times the largest of the numbers that a warp has read.
TUTTI_DEVICE int lowestOfWindow(const float (&values)[kAhead]) {
  constexpr int kSpare = 4;
  int most = 1;
#pragma unroll
  for (const float value : values)
    if (const Parted x(value); x.isFinite()) most = max(most, x.exponent);
  const int highest = min(joinWarp<Largest>(most) + kSpare, kBins - 2);  // of what is finite
  return max(1, highest - (SquaresOfWindow::kExponents - 1));
}

/// The block's sum, in limbs that are zero. Returns how many elements are not finite, as the host
/// counts them, in thread 0.
TUTTI_DEVICE Word sumOfBlock(const AddSquares& x, Word* limbs, float) {
  TUTTI_SHARED(Word, bins, [kBins]);
  for (int bin = int(threadIdx.x); bin < kBins; bin += int(blockDim.x)) bins[bin] = 0;
  __syncthreads();
  SquaresOfWindow window(0);  // none yet
  forOwnElements<float>(x, [&](const float(&values)[kAhead]) {
    if (window.lowest == 0) window.lowest = lowestOfWindow(values);
    bool areInside = true;
#pragma unroll
    for (const float value : values) areInside = areInside && window.has(Parted(value));
    if (areInside) {
#pragma unroll
      for (const float value : values) window.add(Parted(value));
      return;
    }
#pragma unroll
    for (const float value : values) {
      const Parted each(value);
      if (window.has(each))
        window.add(each);
      else
        atomicAdd(&bins[each.exponent], each.isFinite() ? each.square() : 1);
    }
  });
  window.joinWarp();
  if (threadIdx.x % 32 == 0) window.addTo(limbs);
  __syncthreads();
  for (int bin = int(threadIdx.x); bin < kBins - 1; bin += int(blockDim.x))
    if (bins[bin] != 0) addScaled(limbs, bins[bin], 2 * (bin - 150), false);
  return bins[kBins - 1] == 0 ? 0 : 1;
}

/// A square enters as the sum of its rounded value and of that value's error.
TUTTI_DEVICE Word sumOfBlock(const AddSquares& x, Word* limbs, double) {
  Word notFinite = 0;
  forOwnElements<double>(x, [&](const double(&values)[kAhead]) {
#pragma unroll
    for (const double value : values) {
      const double square = __dmul_rn(value, value);
      if ((__double_as_longlong(square) >> 52 & 2047) == 2047) {
        ++notFinite;
        continue;
      }
      addNumber(limbs, square);
      addNumber(limbs, fma(value, value, -square));
    }
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
    if constexpr (sizeof(T) == sizeof(double)) settle(limbs);
    if (notFinite != 0) atomicAdd(&x.limbs[kLimbs], notFinite);
  }
  __syncthreads();
  for (int i = int(threadIdx.x); i < kLimbs; i += int(blockDim.x))
    if (limbs[i] != 0) atomicAdd(&x.limbs[i], limbs[i]);
}

}  // namespace tutti::parallel::cuda
