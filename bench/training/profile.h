#pragma once

// Where the time of training steps goes: a table by kernel, against what the machine can do.

#include <functional>
#include <string>
#include <vector>

#include "bench/training/timed_kernels.h"

namespace tutti::bench {

/// Medians over steps.
struct Profile {
  struct Row {
    std::string kernel;
    double nanoseconds = 0;
    KernelCount count;  ///< of one step
  };
  std::vector<Row> rows;  ///< the longest first
  double step = 0;        ///< nanoseconds of the whole step
  double flops = 0;       ///< of this machine: Peaks::flops()
  double copy = 0;        ///< Peaks::copied()

  /// With a line for what is outside of kernels, and one for the whole step.
  std::string table() const;
};

/// Calls step() `steps` times, and before that twice without a clock. Between the steps the peaks
/// are measured.
Profile profiled(TimedKernels& kernels, int steps, const std::function<void()>& step);

}  // namespace tutti::bench
