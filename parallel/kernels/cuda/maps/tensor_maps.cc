#include "parallel/kernels/cuda/maps/tensor_maps.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "parallel/tensor/check.h"

namespace tutti::parallel::cuda {

namespace {

/// A training has as many operands as it has weights and activations. Beyond, all are forgotten.
constexpr size_t kMostKept = 1 << 14;

void* findEncode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                             12000, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess || function == nullptr)
    fail(ErrorCode::Unsupported, "the CUDA driver has no cuTensorMapEncodeTiled of CUDA 12.0");
  return function;
}

CUtensorMapSwizzle swizzleOf(int32_t columns) {
  ensure(columns == 16 || columns == 32 || columns == 64, "a box's rows are of ", columns);
  return columns == 64   ? CU_TENSOR_MAP_SWIZZLE_128B
         : columns == 32 ? CU_TENSOR_MAP_SWIZZLE_64B
                         : CU_TENSOR_MAP_SWIZZLE_32B;
}

std::string describe(const MappedTensor& x) {
  std::ostringstream text;
  for (size_t i = x.size.size() - 1; i > 0; --i)
    text << x.size[i] << " (" << x.stride[i - 1] << " apart) x ";
  text << x.size[0];
  return std::move(text).str();
}

CUtensorMap encoded(void* encode, const MappedTensor& x) {
  cuuint64_t size[3], strideBytes[2];
  cuuint32_t box[3];
  std::copy(x.size.begin(), x.size.end(), size);
  std::copy(x.box.begin(), x.box.end(), box);
  std::transform(x.stride.begin(), x.stride.end(), strideBytes,
                 [](int64_t stride) { return static_cast<cuuint64_t>(stride) * 2; });
  const cuuint32_t elementStrides[] = {1, 1, 1};
  CUtensorMap map;
  const CUresult result = reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(encode)(
      &map,
      x.format == ElementFormat::BFloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                          : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      3, x.data, size, strideBytes, box, elementStrides, CU_TENSOR_MAP_INTERLEAVE_NONE,
      swizzleOf(x.box[0]), CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    fail(ErrorCode::Cuda, "cuTensorMapEncodeTiled of ", describe(x), ": error ",
         static_cast<int>(result));
  return map;
}

}  // namespace

bool isMappable(const void* data, std::initializer_list<int64_t> strides) {
  constexpr int64_t kMostElements = int64_t{1} << 39;  // fewer bytes than 2^40
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 &&
         std::all_of(strides.begin(), strides.end(), [before = int64_t{8}](int64_t stride) mutable {
           return stride > 0 && stride < kMostElements &&
                  stride % std::exchange(before, stride) == 0;
         });
}

CUtensorMap TensorMaps::of(const MappedTensor& tensor) {
  if (const auto found = kept_.find(tensor); found != kept_.end()) return found->second;
  if (encode_ == nullptr) encode_ = findEncode();
  if (kept_.size() >= kMostKept) kept_.clear();
  return kept_.emplace(tensor, encoded(encode_, tensor)).first->second;
}

}  // namespace tutti::parallel::cuda
