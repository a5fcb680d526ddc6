#pragma once

// GpuWatchdog: looks after launches that have given up, or cannot end. It owns what it has seen at
// its last looks. Watchdog owns it and calls it on the monitor's thread only; no lock protects it.

#include <cstdint>
#include <optional>

#include "src/base/clock.h"
#include "src/communicator/failure/network_watch.h"
#include "src/communicator/owners.h"
#include "src/communicator/settings.h"
#include "src/executor/gpu_executor.h"

namespace tutti::communicator {

class GpuWatchdog {
 public:
  explicit GpuWatchdog(const Owners& owners)
      : owners_(owners), network_(owners.settings.reconnectMs) {}
  /// At every tick, also when the communicator has failed.
  void look();

 private:
  void lookAtFailure(const executor::ExecutorFailure& found);
  void lookForLeavers();
  void lookAtWaits();
  void inquire(uint64_t ended);

  const Owners& owners_;
  const base::SteadyClock clock_;
  NetworkWatch network_;
  int64_t failedNs_ = 0;
  int leaver_ = -1;
  int64_t leaverSinceNs_ = 0;
  std::optional<uint64_t> waited_;  // launches that had ended before the one that is under way
  int64_t waitedSinceNs_ = 0, inquiryNs_ = 0;
  int asked_ = 0;  // the last, as a distance
};

}  // namespace tutti::communicator
