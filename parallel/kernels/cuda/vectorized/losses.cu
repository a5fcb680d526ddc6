// arguments.h, losses.cu: by nvcc for a GPU, by g++ for the emulation.

#include <algorithm>

#include "parallel/kernels/cuda/launch.h"
#include "parallel/kernels/cuda/vectorized/arguments.h"
#include "parallel/kernels/cuda/vectorized/losses_device.cuh"

namespace tutti::parallel::cuda {
namespace {

template <ElementFormat kFormat>
struct LossKernels {
  static constexpr auto kStatistics = statisticsOfRows<kFormat>;
  static constexpr auto kSlopes = slopesOfRows<kFormat>;
  static constexpr auto kWhole = lossesOfWholeRows<kFormat, kThreadsOfWhole>;
  static constexpr auto kLong = lossesOfWholeRows<kFormat, kThreadsOfLong>;
  static cudaError_t load() { return loadAll(kStatistics, kSlopes, kWhole, kLong); }
};
using Floats = LossKernels<ElementFormat::Float32>;
using Brains = LossKernels<ElementFormat::BFloat16>;
using Halves = LossKernels<ElementFormat::Float16>;

/// Of a row: whole warps, as many as have a batch each, up to `most` threads.
int threadsOf(int32_t width, int most) {
  const int64_t warps = blocksOf(width, int64_t{32} * kLossRuns * kLossRun);
  return static_cast<int>(std::min<int64_t>(32 * warps, most));
}

bool isLong(const CrossEntropy& x) {
  return x.width * bytesOf(x.logits.format) > kMostBytesOfWhole;
}

template <class Arguments>
cudaError_t start(const Arguments& x, void (*floats)(Arguments), void (*brains)(Arguments),
                  void (*halves)(Arguments), cudaStream_t stream, int mostThreads = kThreads) {
  const ElementFormat format = x.logits.format;
  const auto kernel = format == ElementFormat::Float32    ? floats
                      : format == ElementFormat::BFloat16 ? brains
                                                          : halves;
  return launch(kernel, x.rows, threadsOf(x.width, mostThreads), x, stream);
}

}  // namespace

cudaError_t enqueue(const InRuns<LogitStatistics>& x, cudaStream_t stream) {
  return start<LogitStatistics>(x, Floats::kStatistics, Brains::kStatistics, Halves::kStatistics,
                                stream);
}

cudaError_t enqueue(const InRuns<CrossEntropy>& x, cudaStream_t stream) {
  if (x.statistics.data == nullptr) {
    if (isLong(x))
      return start<CrossEntropy>(x, Floats::kLong, Brains::kLong, Halves::kLong, stream,
                                 kThreadsOfLong);
    return start<CrossEntropy>(x, Floats::kWhole, Brains::kWhole, Halves::kWhole, stream,
                               kThreadsOfWhole);
  }
  if (x.gradient == 0)
    return launch<CrossEntropy>(lossesOfRows, blocksOf(x.rows, kRowThreads), kRowThreads, x,
                                stream);
  return start<CrossEntropy>(x, Floats::kSlopes, Brains::kSlopes, Halves::kSlopes, stream);
}

cudaError_t loadLosses() {
  cudaError_t error = loadAll(lossesOfRows);
  for (const auto load : {Floats::load, Brains::load, Halves::load})
    if (error == cudaSuccess) error = load();
  return error;
}

}  // namespace tutti::parallel::cuda
