// arguments.h, wgmma.cu: by nvcc for GPUs of compute capability 9.0, by g++ for the emulation.

#include "parallel/kernels/cuda/gemm/wgmma_device.cuh"
#include "parallel/kernels/cuda/load.h"

namespace tutti::parallel::cuda {

namespace {

struct WgmmaKernel {
  void (*kernel)(WgmmaGemm);
  GemmSchedule schedule;
  ElementFormat format;
  int32_t columns;
  bool isKMajorA, isKMajorB;
  size_t sharedBytes;
};

template <GemmSchedule kSchedule, int kColumns, ElementFormat kFormat, Major kMajorA, Major kMajorB>
constexpr WgmmaKernel entry() {
  return {wgmmaGemm<WgmmaKind<kSchedule, kFormat, kColumns, kMajorA, kMajorB>>,
          kSchedule,
          kFormat,
          kColumns,
          kMajorA == Major::K,
          kMajorB == Major::K,
          sizeof(WgmmaShared<kColumns>)};
}

constexpr auto kBrain = ElementFormat::BFloat16, kHalf = ElementFormat::Float16;
constexpr auto kTogether = GemmSchedule::Together, kInTurn = GemmSchedule::InTurn;
constexpr auto kK = Major::K, kMn = Major::Mn;
// All there are.
constexpr WgmmaKernel kWgmmaKernels[] = {
    entry<kTogether, 256, kBrain, kK, kK>(),  entry<kTogether, 256, kBrain, kK, kMn>(),
    entry<kTogether, 256, kBrain, kMn, kK>(), entry<kTogether, 256, kBrain, kMn, kMn>(),
    entry<kTogether, 256, kHalf, kK, kK>(),   entry<kTogether, 256, kHalf, kK, kMn>(),
    entry<kTogether, 256, kHalf, kMn, kK>(),  entry<kTogether, 256, kHalf, kMn, kMn>(),
    entry<kTogether, 192, kBrain, kK, kK>(),  entry<kTogether, 192, kBrain, kK, kMn>(),
    entry<kTogether, 192, kBrain, kMn, kK>(), entry<kTogether, 192, kBrain, kMn, kMn>(),
    entry<kTogether, 192, kHalf, kK, kK>(),   entry<kTogether, 192, kHalf, kK, kMn>(),
    entry<kTogether, 192, kHalf, kMn, kK>(),  entry<kTogether, 192, kHalf, kMn, kMn>(),
    entry<kTogether, 128, kBrain, kK, kK>(),  entry<kTogether, 128, kBrain, kK, kMn>(),
    entry<kTogether, 128, kBrain, kMn, kK>(), entry<kTogether, 128, kBrain, kMn, kMn>(),
    entry<kTogether, 128, kHalf, kK, kK>(),   entry<kTogether, 128, kHalf, kK, kMn>(),
    entry<kTogether, 128, kHalf, kMn, kK>(),  entry<kTogether, 128, kHalf, kMn, kMn>(),
    entry<kTogether, 64, kBrain, kK, kK>(),   entry<kTogether, 64, kBrain, kK, kMn>(),
    entry<kTogether, 64, kBrain, kMn, kK>(),  entry<kTogether, 64, kBrain, kMn, kMn>(),
    entry<kTogether, 64, kHalf, kK, kK>(),    entry<kTogether, 64, kHalf, kK, kMn>(),
    entry<kTogether, 64, kHalf, kMn, kK>(),   entry<kTogether, 64, kHalf, kMn, kMn>(),
    entry<kInTurn, 128, kBrain, kK, kK>(),    entry<kInTurn, 128, kBrain, kK, kMn>(),
    entry<kInTurn, 128, kBrain, kMn, kK>(),   entry<kInTurn, 128, kBrain, kMn, kMn>(),
    entry<kInTurn, 128, kHalf, kK, kK>(),     entry<kInTurn, 128, kHalf, kK, kMn>(),
    entry<kInTurn, 128, kHalf, kMn, kK>(),    entry<kInTurn, 128, kHalf, kMn, kMn>(),
};

}  // namespace

cudaError_t enqueue(const WgmmaGemm& x, cudaStream_t stream) {
  for (const WgmmaKernel& each : kWgmmaKernels)
    if (each.schedule == x.schedule && each.format == x.format && each.columns == x.tileColumns &&
        each.isKMajorA == (x.isKMajorA != 0) && each.isKMajorB == (x.isKMajorB != 0))
      return ::tutti::cuda::launch(each.kernel,
                                   {.grid = dim3(static_cast<unsigned>(x.blocks)),
                                    .block = dim3(kWgmmaThreads),
                                    .cluster = dim3(static_cast<unsigned>(x.cluster)),
                                    .dynamicSharedBytes = each.sharedBytes,
                                    .stream = stream},
                                   x);
  return cudaErrorInvalidValue;
}

cudaError_t loadWgmma() {
  bool isHopper = false;
  cudaError_t error = isHopperHere(&isHopper);
  if (!isHopper) return error;
  for (const WgmmaKernel& each : kWgmmaKernels)
    if (error == cudaSuccess) error = loadLarge(each.kernel, each.sharedBytes);
  return error;
}

}  // namespace tutti::parallel::cuda
