#pragma once

// For tests of when a library reserves what it needs: on a GPU a call that makes or frees memory, a
// stream or an event may wait for all that runs there, and what runs may wait for another rank.

#include <cstdint>
#include <map>
#include <string>

#include "tests/emulation/quiet.h"

namespace tutti::emulation {

/// While it lives, counts the calls of all threads, on all devices, that make, map or free memory,
/// streams or events. Not those that allocate in the order of a stream and wait for none, nor those
/// about graphs. One at a time.
class AllocatingCalls {
 public:
  AllocatingCalls();
  ~AllocatingCalls();
  AllocatingCalls(const AllocatingCalls&) = delete;
  AllocatingCalls& operator=(const AllocatingCalls&) = delete;
  int64_t count() const;
  /// "cudaMalloc 2, cudaStreamCreateWithFlags 1"; empty where there are none.
  std::string describe() const;

 private:
  friend void noteAllocatingCall(const char* function);
  mutable QuietMutex mutex_;
  std::map<std::string, int64_t> counts_;  // by function
};

/// Tells the one that lives, if any, of the function that calls this.
void noteAllocatingCall(const char* function = __builtin_FUNCTION());

}  // namespace tutti::emulation
