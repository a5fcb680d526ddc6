// arguments.h, mma.cu: by nvcc for a GPU, by g++ for the emulation.

#include "parallel/kernels/cuda/gemm/mma_device.cuh"
#include "parallel/kernels/cuda/load.h"

namespace tutti::parallel::cuda {

namespace {

struct MmaKernel {
  void (*kernel)(MmaGemm);
  ElementFormat format;
  bool isKMajorA, isKMajorB;
};

template <ElementFormat kFormat, bool kIsKMajorA, bool kIsKMajorB>
constexpr MmaKernel entry() {
  return {mmaGemm < kFormat,
          kIsKMajorA ? Major::K : Major::Mn,
          kIsKMajorB ? Major::K : Major::Mn >
          , kFormat, kIsKMajorA, kIsKMajorB};
}

// All there are.
constexpr auto kBrain = ElementFormat::BFloat16, kHalf = ElementFormat::Float16,
               kFloat = ElementFormat::Float32;
constexpr MmaKernel kMmaKernels[] = {
    entry<kBrain, true, true>(),   entry<kBrain, true, false>(), entry<kBrain, false, true>(),
    entry<kBrain, false, false>(), entry<kHalf, true, true>(),   entry<kHalf, true, false>(),
    entry<kHalf, false, true>(),   entry<kHalf, false, false>(), entry<kFloat, true, true>(),
    entry<kFloat, true, false>(),  entry<kFloat, false, true>(), entry<kFloat, false, false>(),
};

}  // namespace

cudaError_t enqueue(const MmaGemm& x, cudaStream_t stream) {
  for (const MmaKernel& each : kMmaKernels)
    if (each.format == x.format && each.isKMajorA == (x.a.isKMajor != 0) &&
        each.isKMajorB == (x.b.isKMajor != 0))
      return ::tutti::cuda::launch(each.kernel,
                                   {.grid = dim3(static_cast<unsigned>(x.tiles.units)),
                                    .block = dim3(kMmaThreads),
                                    .dynamicSharedBytes = sizeof(MmaShared),
                                    .stream = stream},
                                   x);
  return cudaErrorInvalidValue;
}

cudaError_t loadMma() {
  cudaError_t error = cudaSuccess;
  for (const MmaKernel& each : kMmaKernels)
    if (error == cudaSuccess) error = loadLarge(each.kernel, sizeof(MmaShared));
  return error;
}

}  // namespace tutti::parallel::cuda
