#pragma once

// Memory of a GPU that other processes and other GPUs can map: physical memory of CUDA's driver
// (cuMem) at an address that is reserved for it. A descriptor of it goes through a Unix socket; who
// gets it maps the same memory, on any GPU that can reach it.

#include <cstddef>
#include <span>

#include "src/base/file_descriptor.h"
#include "src/base/process.h"

namespace tutti::device {

class VirtualMemory {
 public:
  /// `bytes`, rounded up to the granularity, of `device`, which may touch it, as may those of
  /// `peers` (which throws Unsupported for a GPU without a way there). Throws OutOfMemory.
  static VirtualMemory create(int device, size_t bytes, std::span<const int> peers = {});
  /// What another process has exported, of as many bytes as its bytes() said, for kernels and
  /// copies of `device`. The descriptor is not kept.
  static VirtualMemory open(const base::FileDescriptor& exported, int device, size_t bytes);
  /// Whether such memory of `device` has descriptors, and its driver all that is needed.
  static bool isSupported(int device);
  /// Sizes and addresses are multiples of this.
  static size_t granularity(int device);

  VirtualMemory() = default;
  ~VirtualMemory();
  VirtualMemory(VirtualMemory&& other) noexcept;
  VirtualMemory& operator=(VirtualMemory&& other) noexcept;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  base::FileDescriptor exported() const;
  /// From now on kernels and copies of `device` may touch it too.
  void allow(int device);

 private:
  void map();
  void release() noexcept;

  base::ProcessGuard guard_;
  int device_ = 0;
  void* data_ = nullptr;
  size_t bytes_ = 0;
  unsigned long long physical_ = 0;  // the driver's handle
  bool isMapped_ = false;
};

/// Kernels of `peers` may touch `bytes` of `device` from now on, whoever has allocated them: by
/// peer access they may touch what cudaMalloc() gave, and what a pool, or cuMem, gave when that was
/// told so. Throws what CUDA says where that cannot be.
void allowPeers(const void* data, size_t bytes, int device, std::span<const int> peers);

}  // namespace tutti::device
