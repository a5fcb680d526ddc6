#pragma once

// From operands to launches: the kernels of this folder, or the plain ones.

#include "parallel/kernels/cuda/streaming/arguments.h"
#include "parallel/kernels/cuda/streaming/choice.h"

namespace tutti::parallel::cuda {

/// For Queue::start().
template <class Arguments>
struct ChosenStreaming {
  StreamingFamily most;
  Arguments x;
};
template <class Arguments>
ChosenStreaming(StreamingFamily, const Arguments&) -> ChosenStreaming<Arguments>;

/// As enqueue() of launches.h; `doubles` as there.
template <class Arguments, class... Doubles>
cudaError_t enqueueChosen(const ChosenStreaming<Arguments>& x, cudaStream_t stream,
                          Doubles... doubles) {
  const int32_t run = x.most == StreamingFamily::Plain ? 0 : runOf(x.x);
  return run == 0 ? enqueue(x.x, doubles..., stream) : enqueue(InRuns<Arguments>{x.x, run}, stream);
}
template <class Arguments>
requires requires(const Arguments& x, cudaStream_t stream) { enqueue(x, true, stream); }
cudaError_t enqueue(const ChosenStreaming<Arguments>& x, bool doubles, cudaStream_t stream) {
  return enqueueChosen(x, stream, doubles);
}
template <class Arguments>
cudaError_t enqueue(const ChosenStreaming<Arguments>& x, cudaStream_t stream) {
  return enqueueChosen(x, stream);
}

}  // namespace tutti::parallel::cuda
