#include "tests/emulation/device_array.h"

namespace tutti::emulation {

void* driverFunction(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion(name, &function, 12080, cudaEnableDefault, &found), name);
  if (function == nullptr) {
    fprintf(stderr, "the driver has no %s\n", name);
    std::exit(1);
  }
  return function;
}

CUtensorMap makeTensorMap(const TensorBox& tensor) {
  const std::vector<uint32_t> elementStrides(tensor.size.size(), 1);
  const std::vector<cuuint64_t> size(tensor.size.begin(), tensor.size.end());
  // The driver refuses none at all, also of one dimension, which has no stride.
  std::vector<cuuint64_t> strides(tensor.strideBytes.begin(), tensor.strideBytes.end());
  strides.resize(size.size(), 16);
  alignas(128) CUtensorMap map;
  const CUresult result = TUTTI_DRIVER(cuTensorMapEncodeTiled)(
      &map, tensor.type, cuuint32_t(size.size()), tensor.data, size.data(), strides.data(),
      tensor.box.data(), elementStrides.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, tensor.swizzle,
      CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    fprintf(stderr, "a tensor map was refused: %d\n", int(result));
    std::exit(1);
  }
  return map;
}

}  // namespace tutti::emulation
