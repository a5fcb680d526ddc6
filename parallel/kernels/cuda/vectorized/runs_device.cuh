#pragma once

// Runs of neighbours of a row in registers: 4 of float32, or 8 where an operand of the call has 16
// bits. What is loaded stays as it lies in memory until it is needed, so that several loads are
// under way before the first is waited for. Every run begins at a multiple of 16 bytes.
//
// A kernel that is compiled for one format of its operands gives them it by known(): then nothing
// is asked for each run, and the second word of a run of 16 bits takes no registers.

#include "parallel/kernels/cuda/elements_device.cuh"
#include "parallel/kernels/cuda/vectorized/spaces.h"

namespace tutti::parallel::cuda {

namespace ptx = ::tutti::cuda::ptx;

/// Of the format that the kernel was compiled for.
template <int kKnown>
TUTTI_DEVICE Elements known(const Elements& x) {
  return {x.data, kKnown == kAnyFormat ? x.format : ElementFormat(kKnown)};
}

TUTTI_DEVICE uint32_t quotientOf(const Divider& by, uint32_t number) {
  return (uint32_t(uint64_t(number) * by.factor >> 32) + number) >> by.shift;
}

/// A run's row, by its index in each dimension, and its first column.
struct RunPlace {
  uint32_t row[3];
  int64_t column;
};

template <int kRun>
TUTTI_DEVICE RunPlace placeOf(const RunSpace& space, uint32_t run) {
  if (space.isContiguous != 0) return {{0, 0, 0}, int64_t(run) * kRun};
  const uint32_t row = quotientOf(space.runsOfRow, run);
  const uint32_t before = quotientOf(space.last, row), first = quotientOf(space.middle, before);
  return {{first, before - first * space.middle.divisor, row - before * space.last.divisor},
          int64_t(run - row * space.runsOfRow.divisor) * kRun};
}

/// Of a space of rows of one dimension.
template <int kRun>
TUTTI_DEVICE RunPlace placeInRows(const RunSpace& space, uint32_t run) {
  const uint32_t row = quotientOf(space.runsOfRow, run);
  return {{0, 0, row}, int64_t(run - row * space.runsOfRow.divisor) * kRun};
}

TUTTI_DEVICE int64_t elementAt(const RunRows& rows, const RunPlace& place) {
  return place.row[0] * rows.strides[0] + place.row[1] * rows.strides[1] +
         place.row[2] * rows.strides[2] + place.column;
}

/// As they lie in memory; of 8 elements of 16 bits the first word alone.
template <int kRun>
struct RunWords {
  uint4 words[kRun / 4];
};

template <int kRun>
TUTTI_DEVICE bool areFloats(const Elements& x) {
  return kRun == 4 || x.format == ElementFormat::Float32;
}

template <int kRun>
TUTTI_DEVICE uint4* wordsAt(const Elements& x, int64_t at) {
  return reinterpret_cast<uint4*>(static_cast<char*>(x.data) + at * (areFloats<kRun>(x) ? 4 : 2));
}

template <int kRun>
TUTTI_DEVICE RunWords<kRun> loadWords(const Elements& x, int64_t at) {
  const uint4* const from = wordsAt<kRun>(x, at);
  RunWords<kRun> loaded;
  loaded.words[0] = from[0];
  if constexpr (kRun == 8) loaded.words[1] = areFloats<kRun>(x) ? from[1] : make_uint4(0, 0, 0, 0);
  return loaded;
}

TUTTI_DEVICE void parts(const uint4& word, uint32_t (&values)[4]) {
  values[0] = word.x, values[1] = word.y, values[2] = word.z, values[3] = word.w;
}

template <int kRun>
TUTTI_DEVICE void widenWords(const RunWords<kRun>& words, ElementFormat format,
                             float (&values)[kRun]) {
  uint32_t bits[4];
  if (kRun == 4 || format == ElementFormat::Float32) {
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      if (i % 4 == 0) parts(words.words[i / 4], bits);
      values[i] = __uint_as_float(bits[i % 4]);
    }
    return;
  }
  parts(words.words[0], bits);
  if (format == ElementFormat::BFloat16) {
#pragma unroll
    for (int i = 0; i < kRun; ++i)
      values[i] = __uint_as_float(i % 2 == 0 ? bits[i / 2] << 16 : bits[i / 2] & 0xffff0000u);
    return;
  }
#pragma unroll
  for (int i = 0; i < kRun; ++i) values[i] = widenHalf(uint16_t(bits[i / 2] >> 16 * (i % 2)));
}

/// Rounded by the processor's instructions, which differ from store() in the bits of a NaN alone.
template <int kRun>
TUTTI_DEVICE RunWords<kRun> narrowWords(const float (&values)[kRun], ElementFormat format) {
  RunWords<kRun> words;
  if (kRun == 4 || format == ElementFormat::Float32) {
#pragma unroll
    for (int i = 0; i < kRun; i += 4)
      words.words[i / 4] =
          make_uint4(__float_as_uint(values[i]), __float_as_uint(values[i + 1]),
                     __float_as_uint(values[i + 2]), __float_as_uint(values[i + 3]));
    return words;
  }
  uint32_t pairs[4] = {};
#pragma unroll
  for (int i = 0; i < kRun; i += 2)
    pairs[i / 2] = format == ElementFormat::BFloat16 ? ptx::packBf16(values[i], values[i + 1])
                                                     : ptx::packF16(values[i], values[i + 1]);
  words.words[0] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  if constexpr (kRun == 8) words.words[1] = make_uint4(0, 0, 0, 0);
  return words;
}

template <int kRun>
TUTTI_DEVICE void storeWords(const Elements& x, int64_t at, const RunWords<kRun>& words) {
  uint4* const to = wordsAt<kRun>(x, at);
  to[0] = words.words[0];
  if constexpr (kRun == 8)
    if (areFloats<kRun>(x)) to[1] = words.words[1];
}

template <int kRun>
TUTTI_DEVICE void storeRun(const Elements& x, int64_t at, const float (&values)[kRun]) {
  storeWords(x, at, narrowWords(values, x.format));
}

/// Which the second-level cache is to give up before other lines.
template <int kRun>
TUTTI_DEVICE void storeRunOnce(const Elements& x, int64_t at, const float (&values)[kRun]) {
  const RunWords<kRun> words = narrowWords(values, x.format);
  uint4* const to = wordsAt<kRun>(x, at);
  ptx::stStreaming(to, words.words[0]);
  if constexpr (kRun == 8)
    if (areFloats<kRun>(x)) ptx::stStreaming(to + 1, words.words[1]);
}

/// Four elements of 16 bits: half a word.
TUTTI_DEVICE RunWords<4> loadHalfWord(const Elements& x, int64_t at) {
  const uint2 half = *reinterpret_cast<const uint2*>(static_cast<char*>(x.data) + at * 2);
  return {{make_uint4(half.x, half.y, 0, 0)}};
}
TUTTI_DEVICE void widenHalfWord(const RunWords<4>& words, ElementFormat format,
                                float (&values)[4]) {
  float all[8];
  widenWords(RunWords<8>{{words.words[0], make_uint4(0, 0, 0, 0)}}, format, all);
#pragma unroll
  for (int i = 0; i < 4; ++i) values[i] = all[i];
}
TUTTI_DEVICE void storeHalfWord(const Elements& x, int64_t at, const float (&values)[4]) {
  const float all[8] = {values[0], values[1], values[2], values[3]};
  const uint4 word = narrowWords(all, x.format).words[0];
  const uint2 half = make_uint2(word.x, word.y);
  *reinterpret_cast<uint2*>(static_cast<char*>(x.data) + at * 2) = half;
}

}  // namespace tutti::parallel::cuda
