#include "parallel/kernels/cuda/operand.h"

namespace tutti::parallel::cuda {

bool isDouble(const Tensor& operand) {
  if (operand.type != DType::Float32 && operand.type != DType::Float64)
    fail(ErrorCode::Unsupported,
         "the CUDA kernels compute in float64, float32, bfloat16 and float16, not in ",
         toString(operand.type));
  return operand.type == DType::Float64;
}

int32_t sizeOf32(int64_t size) {
  if (size >= int64_t{1} << 30)
    fail(ErrorCode::Unsupported, "the CUDA kernels take less than 2^30 rows or columns, not ",
         size);
  return static_cast<int32_t>(size);
}

Elements elementsOf(const Tensor& x) {
  switch (x.type) {
    case DType::Float64: return {x.data, ElementFormat::Float64};
    case DType::BFloat16: return {x.data, ElementFormat::BFloat16};
    case DType::Float16: return {x.data, ElementFormat::Float16};
    default: return {x.data, ElementFormat::Float32};
  }
}

DeviceMatrix matrixOf(const Tensor& x) {
  return {elementsOf(x), x.shape.rank() == 2 ? x.strides[0] : width(x)};
}

RowPlaces rowPlacesOf(const Tensor& x) {
  RowPlaces places{.isContiguous = x.contiguous(), .extents = {1, 1, 1}, .strides = {0, 0, 0}};
  const int before = x.shape.rank() - 1;
  for (int d = 0; d < before; ++d) {
    places.extents[3 - before + d] = x.shape[d];
    places.strides[3 - before + d] = x.strides[d];
  }
  return places;
}

HeadRows headRowsOf(const Tensor& x) { return {elementsOf(x), x.strides[0], x.strides[1]}; }

HeadScalars headScalarsOf(const Tensor& x) { return {elementsOf(x), x.strides[0], x.strides[1]}; }

const int32_t* numbersOf(const Tensor& x) { return x.data == nullptr ? nullptr : x.as<int32_t>(); }

}  // namespace tutti::parallel::cuda
