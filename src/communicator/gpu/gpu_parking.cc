#include "src/communicator/gpu/gpu_parking.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>

#include "src/base/log.h"

namespace tutti::communicator {
namespace {

constexpr std::chrono::milliseconds kLook{50};

}  // namespace

// Never destroyed: CUDA may be gone by then.
GpuParking& GpuParking::ofProcess() {
  static auto* const parking = new GpuParking;
  return *parking;
}

bool GpuParking::mayGo(const GpuRank& rank) {
  try {
    return !rank.hasGraphs() && rank.isIdle();
  } catch (const Error&) {
    return true;
  }
}

void GpuParking::add(ParkedGpu gpu) {
  sweep();
  const std::lock_guard lock(mutex_);
  parked_.push_back(std::move(gpu));
  if (isServing_ || isStopping_) return;
  isServing_ = true;
  thread_.start("tutti-parking", [this] { serve(); });
}

void GpuParking::sweep() {
  std::vector<ParkedGpu> gone;
  const std::lock_guard lock(mutex_);
  const auto last = std::stable_partition(parked_.begin(), parked_.end(),
                                          [](const ParkedGpu& gpu) { return !mayGo(*gpu.rank); });
  std::move(last, parked_.end(), std::back_inserter(gone));
  parked_.erase(last, parked_.end());
}

void GpuParking::serve() {
  for (;; std::this_thread::sleep_for(kLook)) {
    const std::lock_guard lock(mutex_);
    if (isStopping_) return;
    for (const ParkedGpu& gpu : parked_) try {
        gpu.rank->executor().watch();
      } catch (const std::exception& error) {
        base::log(LogLevel::Debug, "a GPU whose communicator is gone: ", error.what());
      }
  }
}

void GpuParking::stop() {
  {
    const std::lock_guard lock(mutex_);
    isStopping_ = true;
  }
  thread_.finish();
}

}  // namespace tutti::communicator
