#pragma once

// Tensors as kernels take them. A call's operands of 16 bits are computed with in float32, so what
// operands.h checks are copies that are of float32 in their place.

#include <cstdint>

#include "parallel/kernels/cuda/elements.h"
#include "parallel/kernels/operands.h"

namespace tutti::parallel::cuda {

template <class... Tensors>
void widen(Tensors&... operands) {
  ((operands.type = isNarrow(operands.type) ? DType::Float32 : operands.type), ...);
}

/// Whether a call with this widened operand is computed in float64. Throws Unsupported where it is
/// in neither that nor float32.
bool isDouble(const Tensor& operand);

/// Throws Unsupported from 2^30 on.
int32_t sizeOf32(int64_t size);

Elements elementsOf(const Tensor& x);
/// Of a matrix, or of contiguous rows.
DeviceMatrix matrixOf(const Tensor& x);
RowPlaces rowPlacesOf(const Tensor& x);
/// Of [batch, rows, heads * head width].
HeadRows headRowsOf(const Tensor& x);
/// Of [batch, heads, rows].
HeadScalars headScalarsOf(const Tensor& x);
/// Null where it is left out.
const int32_t* numbersOf(const Tensor& x);

}  // namespace tutti::parallel::cuda
