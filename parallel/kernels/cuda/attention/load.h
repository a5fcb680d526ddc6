#pragma once

// Kernels of one type and head width each: how the .cu files choose among them, and load them.
// Included by these only.

#include <algorithm>
#include <limits>

#include <tutti/cuda/launch.h>

#include "parallel/kernels/cuda/attention/arguments.h"
#include "parallel/kernels/cuda/load.h"

namespace tutti::parallel::cuda {

template <class Arguments>
struct HeadKernel {
  void (*kernel)(Arguments);
  ElementFormat format;
  int32_t width, threads, tileRows, sharedBytes;
};

/// A block for each tile of rows of each of `heads`, or `most` for all; nothing where there are
/// none.
template <class Arguments, size_t kCount>
cudaError_t launchTiles(const HeadKernel<Arguments> (&kernels)[kCount], const Arguments& x,
                        int32_t heads, int32_t rows, cudaStream_t stream,
                        int32_t most = std::numeric_limits<int32_t>::max()) {
  for (const HeadKernel<Arguments>& each : kernels) {
    if (each.format != x.query.elements.format || each.width != x.sizes.headWidth) continue;
    const int64_t tiles = (rows + each.tileRows - 1) / each.tileRows;
    const int64_t blocks = std::min(int64_t{x.sizes.batch} * heads * tiles, int64_t{most});
    if (blocks == 0) return cudaSuccess;
    return ::tutti::cuda::launch(each.kernel,
                                 {.grid = dim3(static_cast<unsigned>(blocks)),
                                  .block = dim3(static_cast<unsigned>(each.threads)),
                                  .dynamicSharedBytes = static_cast<size_t>(each.sharedBytes),
                                  .stream = stream},
                                 x);
  }
  return cudaErrorInvalidValue;
}

/// On the current device, with the shared memory that they take.
template <class Arguments, size_t kCount>
cudaError_t loadTiles(const HeadKernel<Arguments> (&kernels)[kCount]) {
  cudaError_t error = cudaSuccess;
  for (const HeadKernel<Arguments>& each : kernels)
    if (error == cudaSuccess) error = loadLarge(each.kernel, static_cast<size_t>(each.sharedBytes));
  return error;
}

}  // namespace tutti::parallel::cuda
