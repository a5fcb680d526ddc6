#pragma once

// Sums of rows by what they are of: gradients of embeddings, over the tokens of one id or position.
// Tokens are sorted by their row, those of one row in their order, so that sums have the bits of
// the reference kernel's, which adds in that order. Then a warp for each row that has tokens, and
// for 32 runs of it, adds up these tokens, of which it loads kAhead before it adds the first.
//
// The sort is by digits of 8 bits, the lowest first, each pass stable: tiles count their tokens by
// digit, one block turns counts into places, and tiles move their tokens there, in their order.
// Tokens whose row is elsewhere have the number of no row, which is last.
//
// Where a gradient begins anew, rows that no token has become zero: a block looks each of its rows
// up among the sorted ones.
//
// Bound: the memory's bandwidth, reads b for each element of a token, and reads and writes the row
// of each id that there is once, or writes all rows once. The sort takes time linear in tokens,
// whatever ids they have: three launches for each 8 bits of a row's number, and 16 bytes a token in
// each. Of an id that many tokens have the sum is bound by the latency of kAhead loads, not by how
// many tokens others have.

#include "parallel/kernels/cuda/joined_device.cuh"
#include "parallel/kernels/cuda/vectorized/arguments.h"
#include "parallel/kernels/cuda/vectorized/runs_device.cuh"

namespace tutti::parallel::cuda {

inline constexpr int kSortWarps = kThreads / 32;
inline constexpr int kSortRounds = kSortTile / kThreads;
static_assert(kThreads == kSortDigits, "a thread for each digit");

/// Rows and tokens in their order, by digits below `shift`.
struct SortPass {
  const int32_t *rows, *tokens;  ///< without tokens: 0, 1, 2, ...
  int32_t *toRows, *toTokens;
  int32_t* counts;  ///< of each tile by digit; then where these begin
  int32_t count, tiles, shift;
};

TUTTI_DEVICE int32_t digitOf(const SortPass& x, int32_t row) {
  return int32_t(uint32_t(row) >> x.shift) & (kSortDigits - 1);
}
/// A warp has neighbours of a tile, 32 in a round.
TUTTI_DEVICE int32_t sortedIn(int round) {
  const int32_t warp = int32_t(threadIdx.x) / 32;
  return int32_t(blockIdx.x) * kSortTile + (warp * kSortRounds + round) * 32 + laneOf();
}

/// A block for each tile.
__global__ inline void countDigits(const __grid_constant__ SortPass x) {
  TUTTI_SHARED(int32_t, counts, [kSortDigits]);
  counts[threadIdx.x] = 0;
  __syncthreads();
  for (int round = 0; round < kSortRounds; ++round)
    if (const int32_t i = sortedIn(round); i < x.count)
      atomicAdd(&counts[digitOf(x, x.rows[i])], 1);
  __syncthreads();
  x.counts[int64_t(blockIdx.x) * kSortDigits + threadIdx.x] = counts[threadIdx.x];
}

/// One block, a thread for each digit: behind those of lower digits, and of tiles before.
__global__ inline void placeDigits(const __grid_constant__ SortPass x) {
  TUTTI_SHARED(int32_t, totals, [kSortDigits]);
  int32_t* const own = x.counts + threadIdx.x;
  int32_t total = 0;
  for (int64_t tile = 0; tile < x.tiles; ++tile) total += own[tile * kSortDigits];
  totals[threadIdx.x] = total;
  __syncthreads();
  int32_t place = 0;
  for (int32_t digit = 0; digit < int32_t(threadIdx.x); ++digit) place += totals[digit];
  for (int64_t tile = 0; tile < x.tiles; ++tile) {
    const int32_t here = own[tile * kSortDigits];
    own[tile * kSortDigits] = place;
    place += here;
  }
}

/// A block for each tile: each warp counts its own round by round, and knows so how many of a
/// token's digit are before it.
__global__ inline void moveByDigit(const __grid_constant__ SortPass x) {
  TUTTI_SHARED(int32_t, ofWarps, [kSortWarps][kSortDigits]);
  for (int warp = 0; warp < kSortWarps; ++warp) ofWarps[warp][threadIdx.x] = 0;
  __syncthreads();
  int32_t* const own = ofWarps[threadIdx.x / 32];
  const unsigned earlier = (1u << laneOf()) - 1;
  int32_t before[kSortRounds] = {};
#pragma unroll
  for (int round = 0; round < kSortRounds; ++round) {
    const int32_t i = sortedIn(round);
    const int32_t digit = i < x.count ? digitOf(x, x.rows[i]) : -1;
    const unsigned same = __match_any_sync(kAllLanes, digit);
    const int32_t counted = digit < 0 ? 0 : own[digit];
    before[round] = counted + __popc(same & earlier);
    __syncwarp();  // all lanes have read it
    if (digit >= 0 && (same & earlier) == 0) own[digit] = counted + __popc(same);
    __syncwarp();
  }
  __syncthreads();
  int32_t place = x.counts[int64_t(blockIdx.x) * kSortDigits + threadIdx.x];
  for (int warp = 0; warp < kSortWarps; ++warp) {
    const int32_t here = ofWarps[warp][threadIdx.x];
    ofWarps[warp][threadIdx.x] = place;
    place += here;
  }
  __syncthreads();
#pragma unroll
  for (int round = 0; round < kSortRounds; ++round) {
    const int32_t i = sortedIn(round);
    if (i >= x.count) continue;
    const int32_t row = x.rows[i], to = own[digitOf(x, row)] + before[round];
    x.toRows[to] = row;
    x.toTokens[to] = x.tokens == nullptr ? i : x.tokens[i];
  }
}

/// What sorting gave.
struct SortedTokens {
  const int32_t *rows, *tokens;
  SumByRow x;
};

/// The links that linkRows() finds.
__global__ inline void linkSorted(const __grid_constant__ SortedTokens sorted) {
  const int64_t i = firstElement();
  if (i >= sorted.x.count) return;
  const int32_t row = sorted.rows[i], token = sorted.tokens[i];
  const bool hasNext = i + 1 < sorted.x.count && sorted.rows[i + 1] == row;
  sorted.x.next[token] = hasNext ? sorted.tokens[i + 1] : -1;
  sorted.x.hasPrevious[token] = i > 0 && sorted.rows[i - 1] == row ? 1 : 0;
}

/// Of a block of clearOthers().
inline constexpr int kClearedRows = 8;

/// Whether a token has the row. Rows ascend; those of tokens that are elsewhere are the last.
TUTTI_DEVICE bool hasTokens(const SortedTokens& sorted, uint32_t row) {
  int32_t begin = 0, end = sorted.x.count;
  while (begin < end) {
    const int32_t middle = begin + (end - begin) / 2;
    if (uint32_t(sorted.rows[middle]) < row)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin < sorted.x.count && uint32_t(sorted.rows[begin]) == row;
}

/// What has rows that are cleared, of so many words each.
struct ClearedRows {
  SortedTokens sorted;
  int32_t words;
};

/// Rows without tokens become zero.
__global__ inline void __launch_bounds__(kRowThreads)
    clearOthers(const __grid_constant__ ClearedRows rows) {
  TUTTI_SHARED(int32_t, isOther, [kClearedRows]);
  const SumByRow& x = rows.sorted.x;
  const int64_t first = int64_t(blockIdx.x) * kClearedRows;
  if (const int64_t row = first + threadIdx.x; threadIdx.x < kClearedRows)
    isOther[threadIdx.x] = row < x.part.here && !hasTokens(rows.sorted, uint32_t(row)) ? 1 : 0;
  __syncthreads();
  for (int i = 0; i < kClearedRows; ++i) {
    if (isOther[i] == 0) continue;
    uint4* const row = static_cast<uint4*>(x.to.data) + (first + i) * rows.words;
    for (int32_t word = int32_t(threadIdx.x); word < rows.words; word += kRowThreads)
      row[word] = make_uint4(0, 0, 0, 0);
  }
}

inline constexpr int kAhead = 8;

/// A warp for each token in their order and each 32 runs: those of tokens that are not the first of
/// their row have nothing to do.
template <int kRun>
__global__ void __launch_bounds__(kRowThreads)
    sumRuns(const __grid_constant__ SortedTokens sorted) {
  const SumByRow& x = sorted.x;
  const uint32_t slices = (uint32_t(x.width / kRun) + 31) / 32;
  const uint32_t warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const auto begin = int32_t(warp / slices);
  if (begin >= x.count) return;
  const int32_t row = sorted.rows[begin];
  if (row < 0 || (begin > 0 && sorted.rows[begin - 1] == row)) return;
  const int32_t column = (int32_t(warp % slices) * 32 + laneOf()) * kRun;
  if (column >= x.width) return;
  const int64_t to = int64_t(row) * x.width + column;
  float sums[kRun] = {};
  if (x.accumulate != 0) widenWords(loadWords<kRun>(x.to, to), x.to.format, sums);
  bool hasMore = true;
  for (int32_t first = begin; hasMore; first += kAhead) {
    RunWords<kRun> words[kAhead] = {};
    bool isOwn[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      isOwn[i] = first + i < x.count && sorted.rows[first + i] == row;
      if (isOwn[i])
        words[i] = loadWords<kRun>(x.dx, int64_t(sorted.tokens[first + i]) * x.width + column);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (!isOwn[i]) break;
      float values[kRun];
      widenWords(words[i], x.dx.format, values);
#pragma unroll
      for (int k = 0; k < kRun; ++k) sums[k] += values[k];
    }
    hasMore = isOwn[kAhead - 1];
  }
  storeRun(x.to, to, sums);
}

}  // namespace tutti::parallel::cuda
