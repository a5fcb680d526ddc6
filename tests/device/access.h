#pragma once

// Which devices may touch virtual memory.

#include <cuda.h>
#include <gtest/gtest.h>

#include "src/device/cuda/driver.h"

namespace tutti::tests {

/// Whether kernels of `device` may read and write virtual memory that starts there.
inline bool mayTouch(int device, const void* start) {
  const auto ask = device::driverFunction<decltype(cuMemGetAccess)>("cuMemGetAccess", 10020);
  const CUmemLocation there{CU_MEM_LOCATION_TYPE_DEVICE, device};
  unsigned long long access = 0;
  EXPECT_EQ(ask(&access, &there, reinterpret_cast<CUdeviceptr>(start)), CUDA_SUCCESS);
  return access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

}  // namespace tutti::tests
