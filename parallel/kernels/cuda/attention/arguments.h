#pragma once

// The attention kernels that use tensor cores: the arguments are those of the plain ones
// (launches.h), and so is what enqueue() promises. choice.h says which operands they take.

#include "parallel/kernels/cuda/launches.h"

namespace tutti::parallel::cuda {

inline constexpr int kHeadThreads = 128;  ///< of a block with tensor cores

/// forward.cu
struct TiledAttention : Attention {};
cudaError_t enqueue(const TiledAttention& x, cudaStream_t stream);
cudaError_t loadAttentionForward();

/// gradients.cu
struct TiledAttentionBackward : AttentionBackward {};
cudaError_t enqueue(const TiledAttentionBackward& x, cudaStream_t stream);
cudaError_t loadAttentionGradients();

}  // namespace tutti::parallel::cuda
