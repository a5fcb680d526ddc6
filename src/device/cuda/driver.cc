#include "src/device/cuda/driver.h"

#include "src/base/check.h"
#include "src/device/cuda/check.h"

namespace tutti::device {

void* findDriverFunction(const char* name, unsigned version) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  TUTTI_CUDA(cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess || !function)
    base::fail(ErrorCode::Unsupported, "the CUDA driver has no ", name, " of CUDA ", version / 1000,
               ".", version % 1000 / 10);
  return function;
}

}  // namespace tutti::device
