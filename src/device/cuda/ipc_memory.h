#pragma once

// Memory of a GPU that another process has allocated, by CUDA's IPC handles.

#include <cuda_runtime_api.h>

#include "src/base/process.h"

namespace tutti::device {

class IpcMemory {
 public:
  /// Of the whole allocation in which `data` lies. Throws what CUDA says.
  static cudaIpcMemHandle_t handleOf(const void* data);
  /// The allocation of another process, for kernels and copies of `device`. Throws what CUDA says.
  static IpcMemory open(const cudaIpcMemHandle_t& handle, int device);

  IpcMemory() = default;
  ~IpcMemory();
  IpcMemory(IpcMemory&& other) noexcept;
  IpcMemory& operator=(IpcMemory&& other) noexcept;

  void* data() const { return data_; }

 private:
  base::ProcessGuard guard_;
  int device_ = 0;
  void* data_ = nullptr;
};

}  // namespace tutti::device
