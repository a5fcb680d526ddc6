#pragma once

// For tests of which kernels calls take.

#include <cstdint>
#include <map>
#include <string>

#include "tests/emulation/quiet.h"

namespace tutti::emulation {

/// While it lives, counts kernels of all devices and threads. One at a time.
class LaunchedKernels {
 public:
  struct Count {
    int64_t asked = 0;  ///< launches, those that are captured among them
    int64_t begun = 0;  ///< on a device, also by graphs
  };
  LaunchedKernels();
  ~LaunchedKernels();
  LaunchedKernels(const LaunchedKernels&) = delete;
  LaunchedKernels& operator=(const LaunchedKernels&) = delete;
  /// Of all kernels whose names have `part`. What was enqueued should have ended.
  Count of(const std::string& part) const;

 private:
  friend void noteKernel(const std::string& name, int64_t Count::*what);
  mutable QuietMutex mutex_;
  std::map<std::string, Count> counts_;  // by name
};

/// Tells the one that lives, if any.
void noteKernel(const std::string& name, int64_t LaunchedKernels::Count::*what);

}  // namespace tutti::emulation
