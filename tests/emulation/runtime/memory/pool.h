#pragma once

// Memory pools, for those who share them.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <set>

struct CUmemPoolHandle_st {
  int device = 0;
  int file = -1;
  size_t end = 0;  // of the file
  cudaMemAllocationHandleType handleTypes = cudaMemHandleTypeNone;
  bool isImported = false, isDefault = false;
  uint64_t threshold = 0;
  uint64_t usedBytes = 0, usedHigh = 0, reservedBytes = 0, reservedHigh = 0;
  int reuse[3] = {1, 1, 1};
  std::set<int> readers;  // devices that were given access, its own aside
};

namespace tutti::emulation {

// Under the runtime's lock.

bool isPool(cudaMemPool_t pool);
cudaMemPool_t keepPool(cudaMemPool_t pool);

}  // namespace tutti::emulation
