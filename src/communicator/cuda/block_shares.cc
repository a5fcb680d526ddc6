#include "src/communicator/cuda/block_shares.h"

#include <algorithm>

namespace tutti::communicator {

SharedBlocks::SharedBlocks(executor::kernel::Residency& residency, int device, uint32_t count)
    : residency_(residency), device_(device), count_(count) {
  residency.reserve(device, count, "whoever takes turns");
}

SharedBlocks::~SharedBlocks() { residency_.release(device_, count_); }

BlockShares& BlockShares::ofProcess() {
  static executor::kernel::Residency residency;
  static BlockShares shares(residency);
  return shares;
}

BlockShare BlockShares::newShare(Shares& here, int device, uint32_t ranks, uint32_t wanted) {
  const uint32_t capacity = residency_.capacity(device);
  // The least that is worth having to oneself is 4 of 132.
  const uint32_t least = std::min(wanted, std::max(capacity / 32, 1U));
  std::shared_ptr<SharedBlocks> shared = here.shared.lock();
  uint32_t left = capacity - (shared ? shared->count() : 0);
  for (const auto& [other, its] : here.byGroup)
    if (!its.part.shared) left -= its.part.count * its.ranks;
  const uint32_t keptBack =
      ranks > 1 || shared ? 0 : std::min({wantedBlocks(1), std::max(capacity / 8, 1U), left});
  const uint32_t own =
      std::min({wanted, std::max(left / (2 * ranks), 1U), (left - keptBack) / ranks});
  if (ranks > 1 || own >= least) return {own};
  if (!shared && keptBack > 0) {
    shared = std::make_shared<SharedBlocks>(residency_, device, keptBack);
    here.shared = shared;
  }
  if (!shared) return {};
  return {std::min(wanted, shared->count()), shared};
}

BlockShare BlockShares::take(uint64_t group, int device, uint32_t ranks, uint32_t wanted) {
  const std::lock_guard lock(mutex_);
  Shares& here = shares_[device];
  auto at = here.byGroup.find(group);
  if (at == here.byGroup.end()) {
    const BlockShare part = newShare(here, device, ranks, wanted);
    if (part.count == 0) return {};
    at = here.byGroup.emplace(group, Share{part, ranks}).first;
  }
  ++at->second.holders;
  return at->second.part;
}

void BlockShares::give(uint64_t group, int device) {
  const std::lock_guard lock(mutex_);
  auto& here = shares_[device].byGroup;
  const auto at = here.find(group);
  if (--at->second.holders == 0) here.erase(at);
}

}  // namespace tutti::communicator
