#include "src/communicator/cuda/cuda_sides.h"

#include <algorithm>
#include <chrono>

#include "src/base/backoff.h"
#include "src/base/log.h"
#include "src/communicator/cuda/gpu_side.h"
#include "src/device/cuda/guards.h"

namespace tutti::communicator {
namespace {

constexpr std::chrono::seconds kPatience{5};

}  // namespace

// Never destroyed: parked sides are not.
CudaSides& CudaSides::ofProcess() {
  static auto* const sides = new CudaSides;
  return *sides;
}

void CudaSides::add(CudaSide& side) {
  const std::lock_guard lock(mutex_);
  sides_.push_back(&side);
}

void CudaSides::remove(CudaSide& side) {
  const std::lock_guard lock(mutex_);
  std::erase(sides_, &side);
}

std::shared_lock<std::shared_mutex> CudaSides::launching() { return std::shared_lock(launching_); }

std::unique_lock<std::shared_mutex> CudaSides::quiet(std::optional<uint64_t> group) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (base::Backoff backoff(false);; backoff.idle()) {
    std::unique_lock alone(launching_);
    if (isQuiet(group)) return alone;
    if (std::chrono::steady_clock::now() >= end) return {};
  }
}

void CudaSides::awaitQuiet(uint64_t group) {
  if (quiet(group)) return;
  base::log(LogLevel::Warning, "kernels of ranks that have failed are under way on GPUs for ",
            kPatience.count(), " s: a call that has failed does not wait for them any longer");
}

void CudaSides::free(CudaMemory memory) {
  {
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(memory));
  }
  const auto alone = quiet({});
  if (!alone) {
    base::log(LogLevel::Warning, "calls are under way on GPUs for ", kPatience.count(),
              " s: the memory of a rank that leaves is kept until another one leaves");
    return;
  }
  std::vector<CudaMemory> gone;
  {
    const std::lock_guard lock(mutex_);
    gone.swap(kept_);
  }
  while (!gone.empty()) {
    const device::OnDevice on(gone.back().device);
    gone.pop_back();
  }
}

bool CudaSides::isQuiet(std::optional<uint64_t> group) {
  const std::lock_guard lock(mutex_);
  return std::ranges::none_of(sides_, [&](CudaSide* side) {
    if (group && side->group() != *group) return false;
    try {
      return !side->isIdle() || (side->hasGraphs() && side->isRunning());
    } catch (const Error&) {
      return false;  // its device has a fault
    }
  });
}

}  // namespace tutti::communicator
