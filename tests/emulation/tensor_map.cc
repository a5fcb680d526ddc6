#include "tests/emulation/tensor_map.h"

#include <cstring>

namespace tutti::emulation {
namespace {

uint8_t elementBytes(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8: return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return 2;
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return 8;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ: return 4;
    default: return 0;
  }
}

/// The map's and the descriptor's numbers of a swizzle differ.
bool convert(CUtensorMapSwizzle swizzle, cuda::ptx::Swizzle& to) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_NONE: to = cuda::ptx::Swizzle::None; return true;
    case CU_TENSOR_MAP_SWIZZLE_32B: to = cuda::ptx::Swizzle::Bytes32; return true;
    case CU_TENSOR_MAP_SWIZZLE_64B: to = cuda::ptx::Swizzle::Bytes64; return true;
    case CU_TENSOR_MAP_SWIZZLE_128B: to = cuda::ptx::Swizzle::Bytes128; return true;
    default: return false;
  }
}

bool isMultiple(uint64_t value, uint64_t of) { return value % of == 0; }

}  // namespace

CUresult encodeTensorMap(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* base,
                         const cuuint64_t* size, const cuuint64_t* strideBytes,
                         const cuuint32_t* box, const cuuint32_t* elementStrides,
                         CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                         CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  TensorMap made;
  cuda::ptx::Swizzle converted{};
  made.elementBytes = elementBytes(type);
  if (map == nullptr || !isMultiple(reinterpret_cast<uintptr_t>(map), 64) || base == nullptr ||
      !isMultiple(reinterpret_cast<uintptr_t>(base), 16) || rank < 1 || rank > 5 ||
      made.elementBytes == 0 || size == nullptr || strideBytes == nullptr || box == nullptr ||
      elementStrides == nullptr || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
      fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE || !convert(swizzle, converted))
    return CUDA_ERROR_INVALID_VALUE;
  made.magic = TensorMap::kMagic;
  made.rank = static_cast<uint8_t>(rank);
  made.swizzle = static_cast<uint8_t>(converted);
  made.type = static_cast<uint8_t>(type);
  made.base = static_cast<char*>(base);
  for (cuuint32_t i = 0; i < rank; ++i) {
    const bool strideIsRight =
        i == 0 || (isMultiple(strideBytes[i - 1], 16) && strideBytes[i - 1] < uint64_t(1) << 40);
    if (size[i] == 0 || size[i] > uint64_t(1) << 32 || box[i] == 0 || box[i] > 256 ||
        elementStrides[i] != 1 || !strideIsRight)
      return CUDA_ERROR_INVALID_VALUE;
    made.size[i] = size[i];
    made.box[i] = static_cast<uint16_t>(box[i]);
    made.strideBytes[i] = i == 0 ? 0 : strideBytes[i - 1];
  }
  const uint32_t innerBytes = box[0] * made.elementBytes;
  if (!isMultiple(innerBytes, 16) ||
      (converted != cuda::ptx::Swizzle::None && innerBytes > widthBytes(converted)))
    return CUDA_ERROR_INVALID_VALUE;
  std::memset(map, 0, sizeof *map);
  std::memcpy(map, &made, sizeof made);
  return CUDA_SUCCESS;
}

}  // namespace tutti::emulation
