#pragma once

// The attention kernels that use tensor cores: the arguments are those of the reference ones
// (launches.h), and so is what enqueue() promises. choice.h says which operands they take.

#include <cuda.h>

#include "parallel/kernels/cuda/launches.h"

namespace tutti::parallel::cuda {

inline constexpr int kHeadThreads = 128;  ///< of a block with mma.sync

/// forward.cu
struct TiledAttention : AttentionForward {};
cudaError_t enqueue(const TiledAttention& x, cudaStream_t stream);
cudaError_t loadAttentionForward();

/// gradients.cu
struct TiledAttentionBackward : AttentionBackward {};
cudaError_t enqueue(const TiledAttentionBackward& x, cudaStream_t stream);
cudaError_t loadAttentionGradients();

// For compute capability 9.0: nothing is loaded on another GPU. A map is of [batch, rows, columns
// of all heads], its boxes of kBoxRows rows by so many columns:

inline constexpr int32_t kBoxRows = 64;
constexpr int32_t panelColumns(int32_t headWidth) {
  return headWidth % 64 == 0 ? 64 : headWidth % 32 == 0 ? 32 : 16;
}

/// wgmma_forward.cu
struct WgmmaAttention : AttentionForward {
  CUtensorMap queries, keys, values;
  int32_t mostBlocks;  ///< which take the tiles in turn
  bool isTall;         ///< tiles are of 192 queries, of heads of kTallWidth columns
};
inline constexpr int32_t kTallWidth = 64;
cudaError_t enqueue(const WgmmaAttention& x, cudaStream_t stream);
cudaError_t loadWgmmaForward();

/// wgmma_gradients.cu
struct WgmmaAttentionBackward : AttentionBackward {
  CUtensorMap queries, keys, values, dOuts;
  int32_t mostBlocks;  ///< of each launch
};
cudaError_t enqueue(const WgmmaAttentionBackward& x, cudaStream_t stream);
cudaError_t loadWgmmaGradients();

/// one_pass.cu: sums of queries' gradients in memory, a tile for each kTurnRows queries of a head.
inline constexpr int32_t kTurnRows = 64;
struct OnePassAttentionBackward : WgmmaAttentionBackward {
  float* sums;      ///< [batch, heads, tiles, kTurnRows * width], aligned to 16 bytes
  uint32_t* turns;  ///< how many key tiles have added to each, [batch, heads, tiles]
  uint32_t* taken;  ///< one behind `turns`: how many key tiles blocks have taken
};
constexpr int64_t turnTiles(const AttentionSizes& sizes) {
  return int64_t{sizes.batch} * sizes.heads * ((sizes.queries + kTurnRows - 1) / kTurnRows);
}
cudaError_t enqueue(const OnePassAttentionBackward& x, cudaStream_t stream);
cudaError_t loadOnePass();

}  // namespace tutti::parallel::cuda
