#pragma once

// How long the steps of fsdp_tp take: of one training, and under several layouts in turn.

#include <vector>

#include "parallel/samples/device_time.h"
#include "parallel/samples/sample.h"

namespace tutti::parallel {

class StepTimes {
 public:
  /// On the device of `mesh`, which must outlive this.
  explicit StepTimes(const DeviceMesh& mesh) : mesh_(mesh) {}
  /// Calls `step`. One ends with sums over all ranks, so it takes as long on each of them.
  template <class Step>
  void measure(const Step& step) {
    const std::chrono::duration<double, std::milli> taken = timeOnDevice(mesh_, step);
    milliseconds_.push_back(taken.count());
  }
  /// Without the first step, in which arenas grow.
  double medianMilliseconds() const;
  double totalMilliseconds() const;  ///< without it too

 private:
  const DeviceMesh& mesh_;
  std::vector<double> milliseconds_;
};

/// Trains under every --tp that is possible, each step under one after that under another, and says
/// of each what rank 0 held, what a step took, and whether that was within `limit` bytes.
void compareLayouts(SampleRank& rank, const std::vector<uint8_t>& tokens, uint64_t limit);

}  // namespace tutti::parallel
