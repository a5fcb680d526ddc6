#pragma once

// CudaKernels for those who link this folder in any build: without CUDA cuda_absent.cc stands
// behind it.

#include <memory>

#include <tutti/device.h>
#include "parallel/kernels/kernels.h"

namespace tutti::parallel {

/// Kernels that run on a CUDA stream, which must outlive them. Throws Unsupported in a build
/// without CUDA.
std::unique_ptr<Kernels> makeCudaKernels(StreamRef stream);

}  // namespace tutti::parallel
