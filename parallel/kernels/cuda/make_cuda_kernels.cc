#include "parallel/kernels/cuda/make_cuda_kernels.h"

#include "parallel/kernels/cuda/cuda_kernels.h"

namespace tutti::parallel {

std::unique_ptr<Kernels> makeCudaKernels(StreamRef stream) {
  return std::make_unique<CudaKernels>(stream);
}

}  // namespace tutti::parallel
