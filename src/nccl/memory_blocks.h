#pragma once

// The memory that ncclMemAlloc() has given out.

#include <map>
#include <mutex>
#include <optional>

#include <tutti/communicator.h>

namespace tutti::nccl {

/// The process's. Thread safe.
class MemoryBlocks {
 public:
  static MemoryBlocks& ofProcess();

  /// Of the thread's GPU; where there is none, memory that ranks of this host can address.
  void* allocate(size_t bytes);
  /// Throws InvalidArgument for what allocate() has not given out. Registrations of it keep it.
  void free(void* data);
  /// Lets the communicator's ranks address the block that the buffer lies in; nothing when it lies
  /// in none, or in one of a GPU.
  std::optional<Memory> share(Communicator& communicator, const void* buffer, size_t bytes) const;

 private:
  MemoryBlocks();
  mutable std::mutex mutex_;
  std::map<const std::byte*, Memory> blocks_;  // by first byte
};

}  // namespace tutti::nccl
