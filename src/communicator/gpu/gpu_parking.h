#pragma once

// Where ranks on GPUs stay whose communicators are gone while graphs of their calls are there, or
// calls that have failed have not begun: CUDA may launch these whatever becomes of the
// communicator, and they must find their memory, and end.

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "src/base/at_exit.h"
#include "src/base/service_thread.h"
#include "src/communicator/gpu/gpu_rank.h"

namespace tutti::communicator {

/// A rank that makes no more calls, and its plans.
struct ParkedGpu {
  std::unique_ptr<GpuRank> rank;
  std::unordered_map<uint64_t, std::unique_ptr<executor::PreparedPlan>> plans;
};

class GpuParking {
 public:
  static GpuParking& ofProcess();

  /// Nothing of it is to come. True also where its device has a fault.
  static bool mayGo(const GpuRank& rank);
  void add(ParkedGpu gpu);
  /// Frees those that may go. To free memory waits for what runs on the GPU, so that
  /// happens where communicators are made and go, and nowhere else.
  void sweep();

 private:
  GpuParking() = default;
  void serve();
  void stop();

  std::mutex mutex_;
  std::vector<ParkedGpu> parked_;
  bool isServing_ = false, isStopping_ = false;
  base::ServiceThread thread_;  // watches them
  const base::AtExit atExit_{[this](const base::Deadline&) { stop(); }};
};

}  // namespace tutti::communicator
