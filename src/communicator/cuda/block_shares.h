#pragma once

// How many blocks of a device each communicator's ranks get. Kernels of all communicators of a
// process may wait on a device at the same time, so what they have together must fit on it; and
// nobody knows how many communicators are to come. So each takes what it wants, which is little
// enough for the handful that a training has, and when that is more than half of what is left, the
// half. What is kept back goes to all that come when such halves are too small to be worth having:
// they share it, and their launches take turns, in the order in which they come. That order has to
// be the same on all GPUs, as NCCL wants it of all communicators. Several ranks on one device wait
// for each other there, and cannot take turns with other communicators'.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "src/communicator/cuda/launch_order.h"
#include "src/executor/kernel/residency.h"

namespace tutti::communicator {

/// What each of so many ranks that a communicator has on a device wants there. One alone has its
/// messages to send over NVLink, as 16 blocks should; several move all bytes through the memory of
/// the device, and want to keep that busy. Not measured.
constexpr uint32_t wantedBlocks(uint32_t ranks) { return ranks > 1 ? 32 : 16; }

/// Blocks of a device that one launch uses at a time.
class SharedBlocks {
 public:
  /// Reserves them; the device is current.
  SharedBlocks(executor::kernel::Residency& residency, int device, uint32_t count);
  ~SharedBlocks();
  SharedBlocks(const SharedBlocks&) = delete;
  SharedBlocks& operator=(const SharedBlocks&) = delete;
  uint32_t count() const { return count_; }
  /// Held from before a launch until it is in the order.
  [[nodiscard]] std::unique_lock<std::mutex> turn() { return std::unique_lock(mutex_); }
  LaunchOrder& order() { return order_; }

 private:
  executor::kernel::Residency& residency_;
  const int device_;
  const uint32_t count_;
  std::mutex mutex_;
  LaunchOrder order_;
};

/// A rank's part. With `shared` launches take turns, and the blocks are reserved.
struct BlockShare {
  uint32_t count = 0;
  std::shared_ptr<SharedBlocks> shared = nullptr;
};

/// One for a process.
class BlockShares {
 public:
  static BlockShares& ofProcess();
  explicit BlockShares(executor::kernel::Residency& residency) : residency_(residency) {}

  /// The blocks of each of the `ranks` ranks of this process that communicator `group` has on the
  /// device, which is current; the same for all that ask. 0 where nothing is left.
  BlockShare take(uint64_t group, int device, uint32_t ranks, uint32_t wanted);
  /// By each of them that had some, when it is gone, and its part with it.
  void give(uint64_t group, int device);
  executor::kernel::Residency& residency() { return residency_; }

 private:
  struct Share {
    BlockShare part;
    uint32_t ranks = 0;
    uint32_t holders = 0;  ///< ranks that have taken it
  };
  struct Shares {
    std::map<uint64_t, Share> byGroup;
    std::weak_ptr<SharedBlocks> shared;
  };
  BlockShare newShare(Shares& here, int device, uint32_t ranks, uint32_t wanted);

  executor::kernel::Residency& residency_;
  std::mutex mutex_;
  std::map<int, Shares> shares_;  // by device
};

}  // namespace tutti::communicator
