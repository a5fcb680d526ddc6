#pragma once

// Attention from operands to launches: which kernels, their arguments and their maps. Of one GPU,
// for one thread at a time.

#include <cuda_runtime_api.h>

#include "parallel/kernels/cuda/attention/choice.h"
#include "parallel/kernels/cuda/maps/tensor_maps.h"

namespace tutti::parallel::cuda {

class Attentions {
 public:
  /// Takes `most` where operands allow; of a GPU of so many multiprocessors.
  Attentions(AttentionFamily most, int32_t processors) : most_(most), processors_(processors) {}

  /// How many numbers of scratch the backward wants: of queries' gradients in one pass.
  int64_t scratchOf(const AttentionBackward& x) const;
  /// As enqueue() of launches.h. Throws as TensorMaps does.
  cudaError_t enqueue(const AttentionForward& x, bool doubles, cudaStream_t stream);
  cudaError_t enqueue(const AttentionBackward& x, bool doubles, cudaStream_t stream);

 private:
  CUtensorMap mapOf(const HeadRows& x, const AttentionSizes& sizes, int32_t heads, int32_t rows);

  /// Of kernels for Hopper.
  int32_t mostBlocks(AttentionFamily family) const;

  const AttentionFamily most_;
  const int32_t processors_;
  TensorMaps maps_;
};

/// For Queue::start().
template <class Arguments>
struct ChosenAttention {
  Attentions* attentions;
  Arguments x;
};
template <class Arguments>
cudaError_t enqueue(const ChosenAttention<Arguments>& x, bool doubles, cudaStream_t stream) {
  return x.attentions->enqueue(x.x, doubles, stream);
}

}  // namespace tutti::parallel::cuda
