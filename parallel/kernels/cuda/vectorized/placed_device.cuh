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
#include "parallel/kernels/cuda/vectorized/arguments.h"
#include "parallel/kernels/cuda/vectorized/runs_device.cuh"

namespace tutti::parallel::cuda {

/// Runs of rows of tokens. A thread has several, kThreads apart, so that what their rows wait for
/// is waited for once.
template <class Arguments>
struct PlacedRuns {
  RunSpace space;
  Arguments x;
};
inline constexpr int kEmbeddedRuns = 4, kMovedRuns = 2;

/// Calls visit(index, place) for the runs of this thread.
template <int kRun, int kRunsOfThread, class Visit>
TUTTI_DEVICE void forRunsOfThread(const RunSpace& space, const Visit& visit) {
  const uint32_t first = blockIdx.x * uint32_t(kThreads * kRunsOfThread) + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kRunsOfThread; ++i)
    if (const uint32_t run = first + uint32_t(i * kThreads); run < space.runs)
      visit(i, placeInRows<kRun>(space, run));
}

/// Where the positions of a token are; -1 where it has none.
TUTTI_DEVICE int32_t positionOf(const Embedding& x, const RunSpace& space, uint32_t token) {
  const uint32_t t = token - quotientOf(space.last, token) * space.last.divisor;
  const int32_t position = x.at == nullptr ? int32_t(t) : x.at[t];
  return position >= 0 && position < x.positionRows ? position : -1;
}

/// What is written the second-level cache is to give up first: of what is read some rows come
/// again.
template <int kRun, int kKnown, bool kHasPositions>
__global__ void __launch_bounds__(kThreads)
    embeddingRuns(const __grid_constant__ PlacedRuns<Embedding> runs) {
  constexpr int kOfPositions = kHasPositions ? kEmbeddedRuns : 1;
  const Embedding& x = runs.x;
  const Elements tokens = known<kKnown>(x.tokens), positions = known<kKnown>(x.positions),
                 to = known<kKnown>(x.x);
  int32_t rows[kEmbeddedRuns] = {}, places[kOfPositions] = {};
  forRunsOfThread<kRun, kEmbeddedRuns>(runs.space, [&](int i, const RunPlace& at) {
    rows[i] = x.tokenIds[at.row[2]];
    if constexpr (kHasPositions) places[i] = positionOf(x, runs.space, at.row[2]);
  });
  RunWords<kRun> words[kEmbeddedRuns] = {}, ofPositions[kOfPositions] = {};
  forRunsOfThread<kRun, kEmbeddedRuns>(runs.space, [&](int i, const RunPlace& at) {
    rows[i] = rowIn(x.part, rows[i]);
    if (rows[i] >= 0) words[i] = loadWords<kRun>(tokens, int64_t(rows[i]) * x.width + at.column);
    if constexpr (kHasPositions)
      if (places[i] >= 0)
        ofPositions[i] = loadWords<kRun>(positions, int64_t(places[i]) * x.width + at.column);
  });
  forRunsOfThread<kRun, kEmbeddedRuns>(runs.space, [&](int i, const RunPlace& at) {
    float sum[kRun] = {};
    if (rows[i] >= 0) widenWords(words[i], tokens.format, sum);
    if constexpr (kHasPositions)
      if (places[i] >= 0) {
        float more[kRun];
        widenWords(ofPositions[i], positions.format, more);
#pragma unroll
        for (int k = 0; k < kRun; ++k) sum[k] = sum[k] + more[k];
      }
    storeRunOnce(to, int64_t(at.row[2]) * x.width + at.column, sum);
  });
}

/// Where so many choices of a row go or come from, from one of them on.
template <int kAhead>
struct ChoicesAhead {
  int32_t rows[kAhead];  ///< -1: nowhere, or beyond the last
  float weights[kAhead];

  TUTTI_DEVICE void load(const Placed& x, int64_t row, int32_t first) {
    const int64_t begin = row * x.choices + first;
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const bool isThere = first + j < x.choices;
      rows[j] = isThere ? placedRow(x, begin + j) : -1;
      weights[j] = isThere ? weightOf<float>(x, begin + j) : 0.0f;
    }
  }
};
inline constexpr int kSpreadAhead = 4;

template <int kRun, int kKnown>
__global__ void __launch_bounds__(kThreads)
    spreadRuns(const __grid_constant__ PlacedRuns<SpreadRows> runs) {
  const SpreadRows& x = runs.x;
  const Elements from = known<kKnown>(x.rows), to = known<kKnown>(x.placed);
  RunWords<kRun> words[kMovedRuns] = {};
  forRunsOfThread<kRun, kMovedRuns>(runs.space, [&](int i, const RunPlace& at) {
    words[i] = loadWords<kRun>(from, int64_t(at.row[2]) * x.width + at.column);
  });
#pragma unroll 1
  for (int32_t first = 0; first < x.choices; first += kSpreadAhead) {
    ChoicesAhead<kSpreadAhead> ahead[kMovedRuns];
    forRunsOfThread<kRun, kMovedRuns>(
        runs.space, [&](int i, const RunPlace& at) { ahead[i].load(x, at.row[2], first); });
    forRunsOfThread<kRun, kMovedRuns>(runs.space, [&](int i, const RunPlace& at) {
      float in[kRun], out[kRun];
      widenWords(words[i], from.format, in);
#pragma unroll
      for (int j = 0; j < kSpreadAhead; ++j) {
        if (ahead[i].rows[j] < 0) continue;
#pragma unroll
        for (int k = 0; k < kRun; ++k) out[k] = ahead[i].weights[j] * in[k];
        storeRun(to, int64_t(ahead[i].rows[j]) * x.width + at.column, out);
      }
    });
  }
}

/// Of each run so many choices are under way.
template <int kRun, int kKnown, int kAhead>
__global__ void __launch_bounds__(kThreads)
    combineRuns(const __grid_constant__ PlacedRuns<CombineRows> runs) {
  const CombineRows& x = runs.x;
  const Elements from = known<kKnown>(x.placed), to = known<kKnown>(x.rows);
  float sums[kMovedRuns][kRun] = {};
#pragma unroll 1
  for (int32_t first = 0; first < x.choices; first += kAhead) {
    ChoicesAhead<kAhead> ahead[kMovedRuns];
    forRunsOfThread<kRun, kMovedRuns>(
        runs.space, [&](int i, const RunPlace& at) { ahead[i].load(x, at.row[2], first); });
    RunWords<kRun> words[kMovedRuns][kAhead] = {};
    forRunsOfThread<kRun, kMovedRuns>(runs.space, [&](int i, const RunPlace& at) {
#pragma unroll
      for (int j = 0; j < kAhead; ++j)
        if (ahead[i].rows[j] >= 0)
          words[i][j] = loadWords<kRun>(from, int64_t(ahead[i].rows[j]) * x.width + at.column);
    });
    forRunsOfThread<kRun, kMovedRuns>(runs.space, [&](int i, const RunPlace&) {
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (ahead[i].rows[j] < 0) continue;
        float in[kRun];
        widenWords(words[i][j], from.format, in);
#pragma unroll
        for (int k = 0; k < kRun; ++k) sums[i][k] = sums[i][k] + ahead[i].weights[j] * in[k];
      }
    });
  }
  forRunsOfThread<kRun, kMovedRuns>(runs.space, [&](int i, const RunPlace& at) {
    storeRun(to, int64_t(at.row[2]) * x.width + at.column, sums[i]);
  });
}

/// Runs of both rows of a choice.
template <int kRun, int kRuns>
struct DotRuns {
  RunWords<kRun> ofRow[kRuns], ofPlaced[kRuns];

  TUTTI_DEVICE DotRuns(const Elements& rows, int64_t row, const Elements& placed, int64_t other) {
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
      ofRow[i] = loadWords<kRun>(rows, row + i * 32 * kRun);
      ofPlaced[i] = loadWords<kRun>(placed, other + i * 32 * kRun);
    }
  }
  TUTTI_DEVICE void add(float& sum, ElementFormat ofRows, ElementFormat ofPlaces) const {
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
