#pragma once

// From operands to launches: the kernels of this folder, or the reference ones.

#include "parallel/kernels/cuda/vectorized/arguments.h"
#include "parallel/kernels/cuda/vectorized/choice.h"

namespace tutti::parallel::cuda {

/// For Queue::start().
template <class Arguments>
struct ChosenMemoryBound {
  MemoryBoundFamily most;
  Arguments x;
};
template <class Arguments>
ChosenMemoryBound(MemoryBoundFamily, const Arguments&) -> ChosenMemoryBound<Arguments>;

/// As enqueue() of launches.h; `doubles` as there.
template <class Arguments, class... Doubles>
cudaError_t enqueueChosen(const ChosenMemoryBound<Arguments>& x, cudaStream_t stream,
                          Doubles... doubles) {
  const int32_t run = x.most == MemoryBoundFamily::Reference ? 0 : runOf(x.x);
  return run == 0 ? enqueue(x.x, doubles..., stream) : enqueue(InRuns<Arguments>{x.x, run}, stream);
}
template <class Arguments>
requires requires(const Arguments& x, cudaStream_t stream) { enqueue(x, true, stream); }
cudaError_t enqueue(const ChosenMemoryBound<Arguments>& x, bool doubles, cudaStream_t stream) {
  return enqueueChosen(x, stream, doubles);
}
template <class Arguments>
cudaError_t enqueue(const ChosenMemoryBound<Arguments>& x, cudaStream_t stream) {
  return enqueueChosen(x, stream);
}

}  // namespace tutti::parallel::cuda
