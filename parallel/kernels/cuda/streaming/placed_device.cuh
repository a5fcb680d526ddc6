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

/// Runs of rows: of embedding [batch, context], else of tokens. A thread has several, kThreads
/// apart, so that what their rows wait for is waited for once.
template <class Arguments>
struct PlacedRuns {
  RunSpace space;
  Arguments x;
};
inline constexpr int kEmbeddedRuns = 4, kMovedRuns = 2;

/// Calls visit(index, run) for the runs of this thread.
template <int kRunsOfThread, class Visit>
TUTTI_DEVICE void forRunsOfThread(const RunSpace& space, const Visit& visit) {
  const uint32_t first = blockIdx.x * uint32_t(kThreads * kRunsOfThread) + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kRunsOfThread; ++i)
    if (const uint32_t run = first + uint32_t(i * kThreads); run < space.runs) visit(i, run);
}

TUTTI_DEVICE int64_t tokenOf(const Embedding& x, const RunPlace& at) {
  return int64_t(at.row[0]) * x.context + at.row[2];
}

template <int kRun, int kKnown>
__global__ void __launch_bounds__(kThreads)
    embeddingRuns(const __grid_constant__ PlacedRuns<Embedding> runs) {
  const Embedding& x = runs.x;
  const Elements tokens = known<kKnown>(x.tokens), positions = known<kKnown>(x.positions),
                 to = known<kKnown>(x.x);
  const bool hasPositions = positions.data != nullptr;
  int32_t ids[kEmbeddedRuns] = {}, places[kEmbeddedRuns] = {};
  forRunsOfThread<kEmbeddedRuns>(runs.space, [&](int i, uint32_t run) {
    const RunPlace at = placeOf<kRun>(runs.space, run);
    ids[i] = x.tokenIds[tokenOf(x, at)];
    places[i] = x.at == nullptr || !hasPositions ? int32_t(at.row[2]) : x.at[at.row[2]];
  });
  int64_t rows[kEmbeddedRuns];
  bool isLearned[kEmbeddedRuns];
  Words<kRun> words[kEmbeddedRuns] = {}, ofPositions[kEmbeddedRuns] = {};
  forRunsOfThread<kEmbeddedRuns>(runs.space, [&](int i, uint32_t run) {
    const int64_t column = placeInRows<kRun>(runs.space, run).column;
    rows[i] = rowIn(x.part, ids[i]);
    isLearned[i] = hasPositions && places[i] >= 0 && places[i] < x.positionRows;
    if (rows[i] >= 0) words[i] = loadWords<kRun>(tokens, rows[i] * x.width + column);
    if (isLearned[i])
      ofPositions[i] = loadWords<kRun>(positions, int64_t(places[i]) * x.width + column);
  });
  forRunsOfThread<kEmbeddedRuns>(runs.space, [&](int i, uint32_t run) {
    const RunPlace at = placeOf<kRun>(runs.space, run);
    float sum[kRun] = {};
    if (rows[i] >= 0) widenWords(words[i], tokens.format, sum);
    if (isLearned[i]) {
      float more[kRun];
      widenWords(ofPositions[i], positions.format, more);
#pragma unroll
      for (int k = 0; k < kRun; ++k) sum[k] = sum[k] + more[k];
    }
    storeRun(to, tokenOf(x, at) * x.width + at.column, sum);
  });
}

/// So many choices are under way.
inline constexpr int kChoicesAhead = 4;

/// Where so many choices of a row go or come from, from one of them on.
struct ChoicesAhead {
  int64_t rows[kChoicesAhead];  ///< -1: nowhere, or beyond the last
  float weights[kChoicesAhead];

  TUTTI_DEVICE ChoicesAhead(const Placed& x, int64_t first, int64_t end) {
#pragma unroll
    for (int j = 0; j < kChoicesAhead; ++j) {
      const bool isThere = first + j < end;
      rows[j] = isThere ? placedRow(x, first + j) : -1;
      weights[j] = isThere ? weightOf<float>(x, first + j) : 0.0f;
    }
  }
};

template <int kRun, int kKnown>
__global__ void __launch_bounds__(kThreads)
    spreadRuns(const __grid_constant__ PlacedRuns<SpreadRows> runs) {
  const SpreadRows& x = runs.x;
  const Elements from = known<kKnown>(x.rows), to = known<kKnown>(x.placed);
  Words<kRun> words[kMovedRuns] = {};
  forRunsOfThread<kMovedRuns>(runs.space, [&](int i, uint32_t run) {
    const RunPlace at = placeInRows<kRun>(runs.space, run);
    words[i] = loadWords<kRun>(from, int64_t(at.row[2]) * x.width + at.column);
  });
  forRunsOfThread<kMovedRuns>(runs.space, [&](int i, uint32_t run) {
    const RunPlace at = placeInRows<kRun>(runs.space, run);
    const int64_t begin = int64_t(at.row[2]) * x.choices, end = begin + x.choices;
    float in[kRun], out[kRun];
#pragma unroll 1
    for (int64_t first = begin; first < end; first += kChoicesAhead) {
      const ChoicesAhead ahead(x, first, end);
      widenWords(words[i], from.format, in);
#pragma unroll
      for (int j = 0; j < kChoicesAhead; ++j) {
        if (ahead.rows[j] < 0) continue;
#pragma unroll
        for (int k = 0; k < kRun; ++k) out[k] = ahead.weights[j] * in[k];
        storeRun(to, ahead.rows[j] * x.width + at.column, out);
      }
    }
  });
}

template <int kRun, int kKnown>
__global__ void __launch_bounds__(kThreads)
    combineRuns(const __grid_constant__ PlacedRuns<CombineRows> runs) {
  const CombineRows& x = runs.x;
  const Elements from = known<kKnown>(x.placed), to = known<kKnown>(x.rows);
  const uint32_t run = uint32_t(firstElement());
  if (run >= runs.space.runs) return;
  const RunPlace at = placeInRows<kRun>(runs.space, run);
  const int64_t row = at.row[2], end = (row + 1) * x.choices;
  float sum[kRun] = {};
#pragma unroll 1
  for (int64_t first = row * x.choices; first < end; first += kChoicesAhead) {
    const ChoicesAhead ahead(x, first, end);
    Words<kRun> words[kChoicesAhead] = {};
#pragma unroll
    for (int j = 0; j < kChoicesAhead; ++j)
      if (ahead.rows[j] >= 0) words[j] = loadWords<kRun>(from, ahead.rows[j] * x.width + at.column);
#pragma unroll
    for (int j = 0; j < kChoicesAhead; ++j) {
      if (ahead.rows[j] < 0) continue;
      float in[kRun];
      widenWords(words[j], from.format, in);
#pragma unroll
      for (int i = 0; i < kRun; ++i) sum[i] = sum[i] + ahead.weights[j] * in[i];
    }
  }
  storeRun(to, row * x.width + at.column, sum);
}

/// Runs of both rows of a choice.
template <int kRun, int kRuns>
struct DotRuns {
  Words<kRun> ofRow[kRuns], ofPlaced[kRuns];

  TUTTI_DEVICE DotRuns(const Elements& rows, int64_t row, const Elements& placed, int64_t other) {
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
      ofRow[i] = loadWords<kRun>(rows, row + i * 32 * kRun);
      ofPlaced[i] = loadWords<kRun>(placed, other + i * 32 * kRun);
    }
  }
  TUTTI_DEVICE void add(float& sum, Format ofRows, Format ofPlaces) const {
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
      float a[kRun], b[kRun];
      widenWords(ofRow[i], ofRows, a);
      widenWords(ofPlaced[i], ofPlaces, b);
#pragma unroll
      for (int k = 0; k < kRun; ++k) sum += a[k] * b[k];
    }
  }
};
/// That a lane has under way.
inline constexpr int kDotRuns = 4;

/// A warp for each choice: each lane adds up its runs in their order, and a tree joins these sums.
template <int kRun, int kKnown>
__global__ void __launch_bounds__(kRowThreads) dotRuns(const __grid_constant__ RowDots x) {
  const int64_t choice = firstElement() / 32;
  if (choice >= x.count) return;  // a whole warp
  const Elements rows = known<kKnown>(x.rows), placed = known<kKnown>(x.placed);
  const int64_t other = placedRow(x, choice);
  const int64_t row = int64_t(uint32_t(choice) / uint32_t(x.choices)) * x.width,
                to = other * x.width;
  const int32_t end = other < 0 ? 0 : x.width;
  float sum = 0;
  int32_t column = laneOf() * kRun;
#pragma unroll 1
  for (; column + (kDotRuns - 1) * 32 * kRun < end; column += kDotRuns * 32 * kRun)
    DotRuns<kRun, kDotRuns>(rows, row + column, placed, to + column)
        .add(sum, rows.format, placed.format);
#pragma unroll 1
  for (; column < end; column += 32 * kRun)
    DotRuns<kRun, 1>(rows, row + column, placed, to + column).add(sum, rows.format, placed.format);
  sum = joinWarp<Sum>(sum);
  if (laneOf() == 0) store<float>(x.weights, choice, sum);
}

}  // namespace tutti::parallel::cuda
