#pragma once

// Memory that is there from the beginning, and of which parts are taken and given back without
// asking CUDA: its own calls may wait for all that runs on a device, and what runs
// may wait for another rank.

#include <cstddef>
#include <memory>
#include <string>

namespace tutti::executor::kernel {

class DeviceArena {
 public:
  /// Of [begin, begin + bytes), which outlives it. `name` is for messages.
  DeviceArena(unsigned char* begin, size_t bytes, std::string name);

  /// Aligned as slots are; given back when nobody holds it any more, from any thread. Null where
  /// there is no room.
  std::shared_ptr<unsigned char> tryTake(size_t bytes);
  /// Throws OutOfMemory with the numbers. `what` needs it.
  std::shared_ptr<unsigned char> take(size_t bytes, const std::string& what);
  /// Throws what take() does.
  [[noreturn]] void refuse(size_t bytes, const std::string& what) const;

 private:
  struct State;  // held by the parts as well
  std::shared_ptr<State> state_;
};

}  // namespace tutti::executor::kernel
