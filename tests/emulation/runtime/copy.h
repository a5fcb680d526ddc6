#pragma once

// Copies, fills and host functions as tasks.

#include "tests/emulation/runtime/stream.h"

namespace tutti::emulation {

struct Rows {  // of one side of a copy
  char* first;
  size_t pitch, slice;  // bytes from row to row, from slice to slice
};

template <class Visit>
void forRows(const Rows& rows, const cudaExtent& extent, Visit visit) {
  for (size_t z = 0; z < extent.depth; ++z)
    for (size_t y = 0; y < extent.height; ++y) visit(rows.first + z * rows.slice + y * rows.pitch);
}

enum class Side { Device, Host, Any };

/// Whether all rows are where the kind of the copy says: device memory or what is mapped for it;
/// host memory, known to CUDA or not.
bool isRight(const Rows& rows, const cudaExtent& extent, Side side);
bool isDeviceMemory(const void* address);
inline bool isEmpty(const cudaExtent& extent) {
  return extent.width == 0 || extent.height == 0 || extent.depth == 0;
}

/// How a call wants its work done.
struct Order {
  bool isAsync = true;
  cudaStream_t stream = nullptr;
};

/// A copy of bytes in a row.
cudaMemcpy3DParms plainCopy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);

// Under the runtime's lock. They check what CUDA checks, and return its error.

cudaError_t makeCopyTask(const cudaMemcpy3DParms& copy, TaskPointer& task);
cudaError_t makeFillTask(const cudaMemsetParams* fill, TaskPointer& task);
cudaError_t makeHostTask(const cudaHostNodeParams* host, TaskPointer& task);

}  // namespace tutti::emulation
