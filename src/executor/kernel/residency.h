#pragma once

// Kernels that wait for each other must be on their devices at the same time: one that cannot start
// because others fill the device, which wait for it, is a deadlock. So all blocks that this process
// may have waiting on a device are counted before any is launched, and what does not fit is
// refused.
//
// A block is counted as one of the most threads, registers and shared memory that any of our
// kernels has. A multiprocessor that holds fewer blocks than it has room for such then has room for
// one more, however they are spread.

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace tutti::executor::kernel {

/// One for all communicators of a process.
class Residency {
 public:
  /// Blocks that the device holds at the same time. Loads the kernels there.
  uint32_t capacity(int device);
  /// Throws InvalidUsage with the numbers where the device does not hold so many more.
  void reserve(int device, uint32_t blocks, const std::string& who);
  void release(int device, uint32_t blocks);

 private:
  struct Room {
    uint32_t capacity = 0, taken = 0;
  };
  Room& room(int device);
  std::mutex mutex_;
  std::map<int, Room> rooms_;
};

/// Dynamic shared memory of a block at most.
inline constexpr uint32_t kMostSharedBytes = 32 << 10;

}  // namespace tutti::executor::kernel
