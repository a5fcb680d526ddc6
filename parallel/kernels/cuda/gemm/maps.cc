#include "parallel/kernels/cuda/gemm/maps.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include "parallel/kernels/cuda/gemm/arguments.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel::cuda {

namespace {

/// A training has as many operands as it has weights and activations. Beyond, all are forgotten.
constexpr size_t kMostKept = 1 << 14;
constexpr int32_t kSwizzledColumns = 64;  // 128 bytes

void* findEncode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                             12000, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess || function == nullptr)
    fail(ErrorCode::Unsupported, "the CUDA driver has no cuTensorMapEncodeTiled of CUDA 12.0");
  return function;
}

CUtensorMap encoded(void* encode, const MappedMatrix& m) {
  const cuuint64_t size[] = {static_cast<cuuint64_t>(m.columns), static_cast<cuuint64_t>(m.rows),
                             static_cast<cuuint64_t>(m.batch)};
  const cuuint64_t strideBytes[] = {static_cast<cuuint64_t>(m.stride) * 2,
                                    static_cast<cuuint64_t>(m.batchStride) * 2};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(m.boxColumns),
                            static_cast<cuuint32_t>(m.boxRows), 1};
  const cuuint32_t elementStrides[] = {1, 1, 1};
  CUtensorMap map;
  const CUresult result = reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(encode)(
      &map,
      m.format == Format::BFloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                   : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      3, m.data, size, strideBytes, box, elementStrides, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    fail(ErrorCode::Cuda, "cuTensorMapEncodeTiled of [", m.rows, ", ", m.columns, "], rows ",
         m.stride, " apart: error ", static_cast<int>(result));
  return map;
}

}  // namespace

bool isMappable(const Matrix& matrix, int64_t batchStride) {
  return reinterpret_cast<uintptr_t>(matrix.elements.data) % 16 == 0 && matrix.stride % 8 == 0 &&
         matrix.stride > 0 && batchStride % matrix.stride == 0;
}

MappedMatrix boxOf(const Matrix& from, const MappedBatch& batch, bool isKMajor, int64_t outers,
                   int64_t depth, int32_t count) {
  return {.data = from.elements.data,
          .format = from.elements.format,
          .rows = isKMajor ? outers : depth,
          .columns = isKMajor ? depth : outers,
          .stride = from.stride,
          .batch = batch.stride == 0 ? 1 : batch.count,
          .batchStride = batch.stride == 0 ? from.stride : batch.stride,
          .boxRows = isKMajor ? count : kStepDepth,
          .boxColumns = kSwizzledColumns};
}

CUtensorMap TensorMaps::of(const MappedMatrix& matrix) {
  if (const auto found = kept_.find(matrix); found != kept_.end()) return found->second;
  if (encode_ == nullptr) encode_ = findEncode();
  if (kept_.size() >= kMostKept) kept_.clear();
  return kept_.emplace(matrix, encoded(encode_, matrix)).first->second;
}

}  // namespace tutti::parallel::cuda
