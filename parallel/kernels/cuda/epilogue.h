#pragma once

// Where the sums of a product go, and what becomes of them on the way: GemmEpilogue of kernels.h,
// as kernels see it.

#include "parallel/kernels/activation.h"
#include "parallel/kernels/cuda/elements.h"

namespace tutti::parallel::cuda {

/// What has no data is left out.
struct Epilogue {
  Activation activation = Activation::None;
  Matrix inner = {}, residual = {};
  Elements bias = {};
  double scale = 1;
};

/// Elements from the matrices of one product of a batch to those of the next one. 0 of what is
/// shared or left out, or where there is one product.
struct BatchStrides {
  int64_t c = 0, inner = 0, residual = 0, bias = 0;
};

struct GemmOutput {
  Matrix c;
  int32_t rows, columns;  ///< of the sums
  int32_t accumulate;
  int32_t isVector;  ///< four columns from a multiple of four on are aligned in all operands
  Epilogue epilogue;
  int32_t batch;  ///< products
  BatchStrides strides;
  int64_t splitStride;  ///< elements from one split's sums to the next one's
};

}  // namespace tutti::parallel::cuda
