#pragma once

// Rows that are looked up: of embeddings, and those that experts are given and give. A thread has a
// run of a row; who moves a row to several places, or adds up several, reads and writes that of
// each, so that what all of them share is touched once.
//
// Bound: the memory's bandwidth; bytes of an element of a row, which has b and k places:
//   embedding      read b of the token, b of the position, write b
//   spreadRows     read b, write k b
//   combineRows    read k b, write b
//   rowDots        read b from the memory once and k - 1 times from a cache, k b of places
// Rows of tokens that come again, and of positions, come from the second-level cache.

#include "parallel/kernels/cuda/joined_device.cuh"
#include "parallel/kernels/cuda/placed_rows_device.cuh"
#include "parallel/kernels/cuda/streaming/arguments.h"
#include "parallel/kernels/cuda/streaming/runs_device.cuh"

namespace tutti::parallel::cuda {

/// Runs of rows: of embedding [batch, context], else of tokens.
template <class Arguments>
struct PlacedRuns {
  RunSpace space;
  Arguments x;
};

template <int kRun>
__global__ void embeddingRuns(const __grid_constant__ PlacedRuns<Embedding> runs) {
  const auto run = uint32_t(firstElement());
  if (run >= runs.space.runs) return;
  const Embedding& x = runs.x;
  const RunPlace place = placeOf<kRun>(runs.space, run);
  const auto t = int32_t(place.row[2]);
  const int64_t token = int64_t(place.row[0]) * x.context + t;
  const int64_t row = rowIn(x.part, x.tokenIds[token]);
  const int64_t position = x.at == nullptr ? t : x.at[t];
  const bool learned = x.positions.data != nullptr && position >= 0 && position < x.positionRows;
  Words<kRun> words = {}, ofPosition = {};
  if (row >= 0) words = loadWords<kRun>(x.tokens, row * x.width + place.column);
  if (learned) ofPosition = loadWords<kRun>(x.positions, position * x.width + place.column);
  float sum[kRun] = {};
  if (row >= 0) widenWords(words, x.tokens.format, sum);
  if (learned) {
    float more[kRun];
    widenWords(ofPosition, x.positions.format, more);
#pragma unroll
    for (int i = 0; i < kRun; ++i) sum[i] = sum[i] + more[i];
  }
  storeRun(x.x, token * x.width + place.column, sum);
}

template <int kRun>
__global__ void spreadRuns(const __grid_constant__ PlacedRuns<SpreadRows> runs) {
  const auto run = uint32_t(firstElement());
  if (run >= runs.space.runs) return;
  const SpreadRows& x = runs.x;
  const RunPlace at = placeOf<kRun>(runs.space, run);
  const int64_t row = at.row[2];
  float in[kRun], out[kRun];
  widenWords(loadWords<kRun>(x.rows, row * x.width + at.column), x.rows.format, in);
  for (int64_t choice = row * x.choices; choice < (row + 1) * x.choices; ++choice) {
    const int64_t to = placedRow(x, choice);
    if (to < 0) continue;
    const float weight = weightOf<float>(x, choice);
#pragma unroll
    for (int i = 0; i < kRun; ++i) out[i] = weight * in[i];
    storeRun(x.placed, to * x.width + at.column, out);
  }
}

/// So many choices are under way.
inline constexpr int kCombined = 4;

template <int kRun>
__global__ void combineRuns(const __grid_constant__ PlacedRuns<CombineRows> runs) {
  const auto run = uint32_t(firstElement());
  if (run >= runs.space.runs) return;
  const CombineRows& x = runs.x;
  const RunPlace at = placeOf<kRun>(runs.space, run);
  const int64_t row = at.row[2], end = (row + 1) * x.choices;
  float sum[kRun] = {};
  for (int64_t first = row * x.choices; first < end; first += kCombined) {
    Words<kRun> words[kCombined] = {};
    float weights[kCombined] = {};
    bool isPlaced[kCombined];
#pragma unroll
    for (int j = 0; j < kCombined; ++j) {
      const int64_t from = first + j < end ? placedRow(x, first + j) : -1;
      isPlaced[j] = from >= 0;
      if (!isPlaced[j]) continue;
      words[j] = loadWords<kRun>(x.placed, from * x.width + at.column);
      weights[j] = weightOf<float>(x, first + j);
    }
#pragma unroll
    for (int j = 0; j < kCombined; ++j) {
      if (!isPlaced[j]) continue;
      float in[kRun];
      widenWords(words[j], x.placed.format, in);
#pragma unroll
      for (int i = 0; i < kRun; ++i) sum[i] = sum[i] + weights[j] * in[i];
    }
  }
  storeRun(x.rows, row * x.width + at.column, sum);
}

/// A warp for each choice: each lane adds up its runs in their order, and a tree joins these sums.
template <int kRun>
__global__ void __launch_bounds__(kRowThreads) dotRuns(const __grid_constant__ RowDots x) {
  const int64_t choice = firstElement() / 32;
  if (choice >= x.count) return;  // a whole warp
  const int64_t row = choice / x.choices * x.width, other = placedRow(x, choice);
  float sum = 0;
#pragma unroll 4
  for (int32_t column = laneOf() * kRun; column < x.width; column += 32 * kRun) {
    if (other < 0) break;
    const Words<kRun> words = loadWords<kRun>(x.rows, row + column),
                      others = loadWords<kRun>(x.placed, other * x.width + column);
    float a[kRun], b[kRun];
    widenWords(words, x.rows.format, a);
    widenWords(others, x.placed.format, b);
#pragma unroll
    for (int i = 0; i < kRun; ++i) sum += a[i] * b[i];
  }
  sum = joinWarp<Sum>(sum);
  if (laneOf() == 0) store<float>(x.weights, choice, sum);
}

}  // namespace tutti::parallel::cuda
