#pragma once

// A one-sided call as resumable work. It takes no turn among the communicator's operations: it may
// run beside them, and beside other one-sided calls. One thread polls it. Unlike an operation it
// may be dropped: nobody waits for it.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <tutti/device.h>
#include <tutti/window.h>

#include "src/communicator/failure/network_watch.h"
#include "src/communicator/one_sided/one_sided_call.h"
#include "src/communicator/owners.h"
#include "src/communicator/placement.h"
#include "src/device/host_stream.h"

namespace tutti::device {
class StreamGate;
}

namespace tutti::communicator {

class OneSidedWork final : public device::Work {
 public:
  /// A checked call.
  OneSidedWork(std::shared_ptr<const Owners> owners, OneSidedCall call, CallPlacement placement);
  /// The same call once more.
  OneSidedWork copy() const { return {owners_, call_, placement_}; }
  ~OneSidedWork() override;
  /// Before poll().
  OneSidedWork(OneSidedWork&&) noexcept = default;
  OneSidedWork& operator=(OneSidedWork&&) noexcept = default;

  /// Whatever it throws is the communicator's failure, an Error.
  Status poll() override;

  const Owners& owners() const { return *owners_; }
  std::shared_ptr<const Owners> share() const { return owners_; }
  const CallPlacement& placement() const { return placement_; }
  bool sharesCores() const;
  double predictedMicroseconds() const;
  /// Adds those of `later`, of the same communicator, after its own.
  void absorb(OneSidedWork later) { call_.absorb(std::move(later.call_)); }
  /// Enqueues it on a stream of the rank's GPU: what it stores itself there, the rest by the
  /// progress engine, for which the stream waits.
  void enqueue(StreamRef stream) &&;
  /// Of its communicator. If it was the last that kept it, the gate is opened before that ends.
  void letGo(const std::shared_ptr<device::StreamGate>& gate);

 private:
  void watch();  // deadlines and departures, looked at now and then
  void watchLeavers(int peer, int64_t nowNs);
  void lookAtNetwork(int peer, int64_t nowNs);
  void ask(int peer, int64_t nowNs);
  std::string told(int peer) const;
  void requirePeers() const;
  bool hasStopped(int peer) const;
  void failWithout(int peer) const;

  std::shared_ptr<const Owners> owners_;
  OneSidedCall call_;
  CallPlacement placement_;
  OneSidedProgress progress_;
  uint32_t idlePolls_ = 0;
  int64_t leaverSinceNs_ = 0;
  int64_t askedNs_ = 0, lookedNs_ = 0;
  NetworkWatch network_;
  bool straggling_ = false;
};

// Each throws InvalidArgument when the call cannot be right, and InvalidUsage without a window.
/// `window` is what the arguments' window stands for, or null.
OneSidedWork makePut(std::shared_ptr<const Owners> owners, const PutArgs& args,
                     Window::Impl* window);
OneSidedWork makeSignal(std::shared_ptr<const Owners> owners, const SignalArgs& args);
OneSidedWork makeWait(std::shared_ptr<const Owners> owners, const WaitSignalsArgs& args);

/// Drives it here or hands it to a stream, or leaves that to the group that is open.
void start(OneSidedWork work, StreamRef stream);
/// Hands it to a stream of the rank's GPU.
void startOnGpu(OneSidedWork work, StreamRef stream);

}  // namespace tutti::communicator
