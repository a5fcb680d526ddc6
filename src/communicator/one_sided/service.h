#pragma once

// OneSidedService: receives what other ranks put and signal while this one makes no call, and
// drives the calls that streams of GPUs wait for. One work on a stream of the process's progress
// engine, as long as there are windows or such calls. The engine may have the work for a moment
// longer than its communicator is there: end() says so to it.
//
// `ownerMutex_` protects the owner. It is held while the owner is called. `mutex_` protects the
// rest, for moments; it may be taken under any other lock.

#include <memory>
#include <mutex>
#include <vector>

#include <tutti/device.h>

#include "src/device/host_stream.h"

namespace tutti::communicator {

class OneSided;

class OneSidedService final : public std::enable_shared_from_this<OneSidedService> {
 public:
  explicit OneSidedService(OneSided& owner) : owner_(&owner) {}

  /// There is something to serve. It goes on until the owner has nothing left.
  void wake(StreamRef stream);
  /// Drives a call to its end.
  void post(std::unique_ptr<device::Work> call, StreamRef stream);
  /// The owner is not called any more when it returns.
  void end();

 private:
  class Rounds;
  void start(StreamRef stream);
  // The rounds'.
  void take(std::vector<std::unique_ptr<device::Work>>& calls);
  bool serve(bool& moved);
  bool mayStop();

  std::mutex ownerMutex_;
  OneSided* owner_;
  std::mutex mutex_;
  bool running_ = false, wanted_ = false;
  std::vector<std::unique_ptr<device::Work>> posted_;  // until a round takes them
};

}  // namespace tutti::communicator
