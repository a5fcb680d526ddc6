#pragma once

// How many blocks of a device each communicator's ranks get. Kernels of all communicators of a
// process may wait on a device at the same time, so what they have together must fit on it; and
// nobody knows how many communicators are to come. So each takes what it wants, which is little
// enough for the handful that a training has, and when that is more than half of what is left, the
// half.

#include <cstdint>
#include <map>
#include <mutex>

#include "src/executor/cuda/residency.h"

namespace tutti::communicator {

/// What each of so many ranks that a communicator has on a device wants there. One alone has its
/// messages to send over NVLink, as 16 blocks should; several move all bytes through the memory of
/// the device, and want to keep that busy. Not measured.
constexpr uint32_t wantedBlocks(uint32_t ranks) { return ranks > 1 ? 32 : 16; }

/// One for a process.
class BlockShares {
 public:
  static BlockShares& ofProcess();
  explicit BlockShares(executor::cuda::Residency& residency) : residency_(residency) {}

  /// The blocks of each of the `ranks` ranks of this process that communicator `group` has on the
  /// device; the same for all that ask. 0 where nothing is left.
  uint32_t take(uint64_t group, int device, uint32_t ranks, uint32_t wanted);
  /// By each of them, when it is gone.
  void give(uint64_t group, int device);
  executor::cuda::Residency& residency() { return residency_; }

 private:
  struct Share {
    uint32_t blocks = 0, ranks = 0;
    uint32_t holders = 0;  ///< ranks that have taken it
  };
  executor::cuda::Residency& residency_;
  std::mutex mutex_;
  std::map<int, std::map<uint64_t, Share>> shares_;  // by device and communicator
};

}  // namespace tutti::communicator
