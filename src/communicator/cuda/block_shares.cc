#include "src/communicator/cuda/block_shares.h"

#include <algorithm>

namespace tutti::communicator {

BlockShares& BlockShares::ofProcess() {
  static executor::cuda::Residency residency;
  static BlockShares shares(residency);
  return shares;
}

uint32_t BlockShares::take(uint64_t group, int device, uint32_t ranks, uint32_t wanted) {
  const uint32_t capacity = residency_.capacity(device);
  const std::lock_guard lock(mutex_);
  auto& here = shares_[device];
  const auto [at, isNew] = here.try_emplace(group);
  Share& share = at->second;
  if (isNew) {
    uint32_t taken = 0;
    for (const auto& [other, its] : here) taken += its.blocks * its.ranks;
    const uint32_t left = capacity - taken;
    share.ranks = ranks;
    share.blocks = std::min({wanted, std::max(left / (2 * ranks), 1U), left / ranks});
  }
  if (share.blocks == 0) {
    if (isNew) here.erase(at);
    return 0;
  }
  ++share.holders;
  return share.blocks;
}

void BlockShares::give(uint64_t group, int device) {
  const std::lock_guard lock(mutex_);
  auto& here = shares_[device];
  const auto at = here.find(group);
  if (--at->second.holders == 0) here.erase(at);
}

}  // namespace tutti::communicator
