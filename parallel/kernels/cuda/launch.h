#pragma once

// How the .cu files enqueue a kernel that was compiled for both types, and load it ahead. Included
// by these only.

#include <tutti/cuda/launch.h>

#include <algorithm>
#include <cstdint>

#include "parallel/kernels/cuda/launches.h"
#include "parallel/kernels/cuda/load.h"

namespace tutti::parallel::cuda {

/// Computes in float32, and in float64.
template <class Arguments>
struct TypedKernel {
  void (*floats)(Arguments);
  void (*doubles)(Arguments);
};

template <class Arguments>
cudaError_t loadOne(const TypedKernel<Arguments>& kernel) {
  const cudaError_t error = loadOne(kernel.floats);
  return error == cudaSuccess ? loadOne(kernel.doubles) : error;
}

template <class... Kernels>
cudaError_t loadAll(const Kernels&... kernels) {
  cudaError_t error = cudaSuccess;
  ((error = error == cudaSuccess ? loadOne(kernels) : error), ...);
  return error;
}

/// Enqueues nothing where there are no blocks.
template <class Arguments>
cudaError_t launch(void (*kernel)(Arguments), int64_t blocks, int threads,
                   const Arguments& arguments, cudaStream_t stream) {
  if (blocks == 0) return cudaSuccess;
  return ::tutti::cuda::launch(kernel,
                               {.grid = dim3(static_cast<unsigned>(blocks)),
                                .block = dim3(static_cast<unsigned>(threads)),
                                .stream = stream},
                               arguments);
}

template <class Arguments>
cudaError_t launch(const TypedKernel<Arguments>& kernel, bool doubles, int64_t blocks, int threads,
                   const Arguments& arguments, cudaStream_t stream) {
  return launch(doubles ? kernel.doubles : kernel.floats, blocks, threads, arguments, stream);
}

constexpr int64_t blocksOf(int64_t count, int64_t each) { return (count + each - 1) / each; }
/// Of kThreads: for loops over `count` elements, by as many blocks as fill any GPU.
constexpr int64_t blocksOver(int64_t count) {
  return std::min<int64_t>(blocksOf(count, kThreads), 4096);
}

}  // namespace tutti::parallel::cuda
