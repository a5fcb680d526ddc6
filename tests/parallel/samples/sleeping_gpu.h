#pragma once

// A GPU whose stream sleeps where it should compute, so that a test sees whose time was taken.

#include <atomic>
#include <chrono>
#include <thread>

#include "parallel/mesh/device_mesh.h"

namespace tutti::parallel {

class SleepingGpu {
 public:
  using Clock = std::chrono::steady_clock;

  void sleep() {
    awake_ = false;
    mesh.backing().stream->enqueue([this] {
      const auto begin = Clock::now();
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      microseconds_ = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
      awake_ = true;
    });
  }
  bool awake() const { return awake_; }
  /// How long it has slept.
  double microseconds() const { return microseconds_; }
  DeviceMesh mesh{Device{DeviceKind::Cuda, 0}};

 private:
  std::atomic<bool> awake_{true};
  std::atomic<double> microseconds_{0};
};

}  // namespace tutti::parallel
