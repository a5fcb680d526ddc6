#include "src/communicator/cuda/cuda_ranks.h"

#include <algorithm>
#include <chrono>

#include "src/base/backoff.h"
#include "src/base/log.h"
#include "src/communicator/cuda/cuda_rank.h"
#include "src/device/cuda/guards.h"

namespace tutti::communicator {
namespace {

constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::milliseconds kHeldUp{200};

}  // namespace

// Never destroyed: parked ranks are not.
CudaRanks& CudaRanks::ofProcess() {
  static auto* const ranks = new CudaRanks;
  return *ranks;
}

void CudaRanks::add(CudaRank& rank) {
  const std::lock_guard lock(mutex_);
  ranks_.push_back(&rank);
}

void CudaRanks::remove(CudaRank& rank) {
  const std::lock_guard lock(mutex_);
  std::erase(ranks_, &rank);
}

std::shared_lock<std::shared_mutex> CudaRanks::launching() { return std::shared_lock(launching_); }

std::unique_lock<std::shared_mutex> CudaRanks::quiet(std::optional<uint64_t> group,
                                                     std::chrono::milliseconds patience) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + patience;
  // Whoever launches may wait there for room, which others make.
  std::unique_lock alone(launching_, std::defer_lock);
  for (base::Backoff backoff(false); Clock::now() < end + kHeldUp; backoff.idle()) {
    if (!alone && !alone.try_lock()) continue;
    if (isQuiet(group)) return alone;
    if (Clock::now() < end) alone.unlock();
  }
  return {};
}

void CudaRanks::awaitQuiet(uint64_t group) {
  if (quiet(group, kPatience)) return;
  base::log(LogLevel::Warning, "kernels of ranks that have failed are under way on GPUs for ",
            kPatience.count(), " s: a call that has failed does not wait for them any longer");
}

void CudaRanks::free(CudaMemory memory) {
  bool isFirst = false;
  {
    const std::lock_guard lock(mutex_);
    isFirst = kept_.empty();
    kept_.push_back(std::move(memory));
  }
  // Who has something kept already has waited for the calls that are under way.
  if (freeKept(isFirst ? kPatience : std::chrono::seconds{0}) || !isFirst) return;
  base::log(LogLevel::Warning, "calls are under way on GPUs for ", kPatience.count(),
            " s: the memory of a rank that leaves is kept until they have ended, and another rank "
            "comes or leaves");
}

void CudaRanks::freeKept() {
  {
    const std::lock_guard lock(mutex_);
    if (kept_.empty()) return;
  }
  freeKept(std::chrono::seconds{0});
}

bool CudaRanks::freeKept(std::chrono::milliseconds patience) {
  const auto alone = quiet({}, patience);
  if (!alone) return false;
  std::vector<CudaMemory> gone;
  {
    const std::lock_guard lock(mutex_);
    gone.swap(kept_);
  }
  while (!gone.empty()) {
    const device::OnDevice on(gone.back().device);
    gone.pop_back();
  }
  return true;
}

bool CudaRanks::isQuiet(std::optional<uint64_t> group) {
  const std::lock_guard lock(mutex_);
  return std::ranges::none_of(ranks_, [&](CudaRank* rank) {
    if (group && rank->facts().group != *group) return false;
    try {
      if (group && rank->isAborted()) rank->discard();
      return rank->isBusy() || (!group && !rank->isIdle());
    } catch (const Error&) {
      return false;  // its device has a fault
    }
  });
}

}  // namespace tutti::communicator
