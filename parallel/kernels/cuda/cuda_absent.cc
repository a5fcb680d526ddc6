// In a build without CUDA there are no such streams, and nobody comes here.

#include "parallel/kernels/cuda/make_cuda_kernels.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel {

std::unique_ptr<Kernels> makeCudaKernels(StreamRef) {
  fail(ErrorCode::Unsupported, "this build of Tutti has no kernels of CUDA");
}

}  // namespace tutti::parallel
