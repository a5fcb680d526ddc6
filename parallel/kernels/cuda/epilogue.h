#pragma once

// Where the sums of a product go, and what becomes of them on the way: GemmEpilogue of kernels.h,
// as kernels see it.

#include "parallel/kernels/activation.h"
#include "parallel/kernels/cuda/elements.h"

namespace tutti::parallel::cuda {

/// What has no data is left out.
struct Epilogue {
  Activation activation = Activation::None;
  DeviceMatrix inner = {}, residual = {};
  Elements bias = {};
  double scale = 1;
};

/// Elements from the matrices of one product of a batch to those of the next one. 0 of what is
/// shared or left out, or where there is one product.
struct BatchStrides {
  int64_t c = 0, inner = 0, residual = 0, bias = 0;
};

/// How kernels with tensor cores store: what Lines and Pairs have no way for is Any's.
///   Lines  c, bias, residual and `inner` of the operands' 16 bits, whose rows, and halves of
///          rows, begin at multiples of 16 bytes. The residual, or what c has where it is added to
///          and which is in the residual's place then, without an activation.
///   Pairs  c of float32, in rows of an even number of columns that begin at multiples of 8 bytes;
///          no epilogue.
enum class OutputWay : int32_t { Any, Lines, Pairs };

struct GemmOutput {
  DeviceMatrix c;
  int32_t rows, columns;  ///< of the sums
  int32_t accumulate;
  int32_t isVector;  ///< four columns from a multiple of four on are aligned in all operands
  OutputWay way;
  Epilogue epilogue;
  /// Of the epilogue, for sums in float32: asked of a double, an instruction of the pipe that has
  /// these would wait for the tensor cores.
  int32_t isScaled;
  float scale;
  int32_t batch;  ///< products
  BatchStrides strides;
  int64_t splitStride;  ///< elements from one split's sums to the next one's
};

}  // namespace tutti::parallel::cuda
