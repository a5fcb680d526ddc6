#pragma once

// Where GPU sides stay whose communicators are gone while graphs of their calls are there: CUDA may
// replay these whatever becomes of the communicator, and they must find their memory, and end.

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "src/base/at_exit.h"
#include "src/base/service_thread.h"
#include "src/communicator/gpu.h"

namespace tutti::communicator {

/// A side that has left, and its plans.
struct ParkedGpu {
  std::unique_ptr<GpuSide> side;
  std::unordered_map<uint64_t, std::unique_ptr<GpuPlan>> plans;
};

class GpuParking {
 public:
  static GpuParking& ofProcess();

  void add(ParkedGpu gpu);
  /// Frees those whose graphs are gone. To free memory waits for what runs on the GPU, so that
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
  const base::AtExit atExit_{[this] { stop(); }};
};

}  // namespace tutti::communicator
