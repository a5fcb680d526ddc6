#pragma once

// A collective, or the sends and receives of a group, as resumable work, and the two ways to run
// it: driven to its end by the caller, or polled by the progress engine. Once it has its number,
// all later operations of the communicator wait for it; so it either ends or fails the
// communicator, whatever becomes of it.
//
// The thread that issues makes it and gives it its number; after that one thread polls it. It keeps
// its communicator, and goes to the owners that it needs.

#include <exception>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "src/communicator/arguments.h"
#include "src/communicator/gpu/gpu_work.h"
#include "src/communicator/host/host_backend.h"
#include "src/communicator/owners.h"
#include "src/communicator/placement.h"
#include "src/communicator/recorder.h"
#include "src/device/host_stream.h"
#include "src/executor/call.h"
#include "src/executor/exchange.h"
#include "src/executor/host/operation.h"

namespace tutti::communicator {

class OperationWork final : public device::Work {
 public:
  /// A checked call, and what is chosen for it.
  OperationWork(std::shared_ptr<const Owners> owners, executor::CollectiveCall call,
                ReadyChoice& choice, CallPlacement placement);
  OperationWork(std::shared_ptr<const Owners> owners, executor::Exchange exchange,
                CallPlacement placement);
  ~OperationWork() override;  ///< fails the communicator when it has a number and has not ended
  /// Of one without a number: the same call once more.
  OperationWork copy() const;
  OperationWork(OperationWork&&) noexcept = default;
  OperationWork& operator=(OperationWork&&) noexcept = default;

  /// Gives it the next number of its communicator. By the thread that issues, before poll().
  void takeNumber();
  /// In the place of takeNumber(): a short call, which has its numbers and has stopped on the way.
  void resume(const Recorder::Entry& entry, const KnownCall& stopped);
  /// Likewise of sends and receives, of which these are left.
  void resume(const Recorder::Entry& entry) {
    entry_ = entry;
    running_ = true;
  }
  /// Its time, in the place of that of the settings. Before poll().
  void limit(int64_t timeoutMs) { limitMs_ = timeoutMs; }
  /// Idle until it is this operation's turn. Whatever it throws is the communicator's failure, an
  /// Error.
  Status poll() override;
  base::SleepPlace* sleepPlace() override;
  bool sharesCores() const;
  /// Of one without a number.
  double predictedMicroseconds() const;

  // Exchanges of one communicator in one group are one. Before any has its number.
  bool isExchange() const { return std::holds_alternative<executor::Exchange>(call_); }
  const Owners& owners() const { return *owners_; }
  std::shared_ptr<const Owners> share() const { return owners_; }
  /// Of a collective: as HostBackend::know() has it.
  std::unique_ptr<KnownCall> know() const;
  const CallPlacement& placement() const { return placement_; }
  /// To be launched on the GPU of its rank. Throws Unsupported where that cannot be.
  GpuWork onGpu(StreamRef stream) const;
  /// Adds the transfers of `later`, an exchange of the same communicator, after its own.
  void absorb(OperationWork later);
  /// Throws InvalidUsage or InvalidArgument when an exchange cannot be made.
  void requireComplete() const;

 private:
  Status step();
  void begin();
  void watch();  // deadlines and departures, looked at now and then
  int64_t timeoutMs() const;
  void timeOut();
  void watchLeavers();
  void inquire(const executor::MismatchSeen& seen);
  Status disputed(const executor::MismatchSeen& seen);
  void noteBreak(const transports::ConnectionLost& lost);
  Status broken(const transports::ConnectionLost& lost);
  void endFailed();
  /// Nobody reads its zero-copy sends any more.
  bool isRecalled() const;
  void failedBy(ErrorCode code, const char* what);
  Status leave();

  std::shared_ptr<const Owners> owners_;  // null where it was moved away
  std::variant<executor::CollectiveCall, executor::Exchange> call_;
  ReadyChoice* choice_ = nullptr;  // of a collective
  CallPlacement placement_;
  Recorder::Entry entry_;  // its number is 0 before it has one
  executor::Operation* operation_ = nullptr;
  std::optional<int64_t> limitMs_;      // in the place of that of the settings
  const KnownCall* stopped_ = nullptr;  // of a short call
  bool running_ = false;                // the executor has been entered for it
  bool ended_ = false;
  bool leaving_ = false;        // it has failed, and waits for its zero-copy sends
  int64_t waitingSinceNs_ = 0;  // the clock is not read before it has to wait
  int64_t disputedNs_ = 0;
  std::optional<executor::MismatchSeen> dispute_;
  int64_t brokenNs_ = 0;
  std::optional<transports::ConnectionLost> break_;
  uint32_t idlePolls_ = 0;
  int leaver_ = -1;  // a rank that has left, and that this exchange needs
  int64_t leaverSinceNs_ = 0;
};

/// Polls until the work is done; throws its failure.
void drive(device::Work& work, bool spinFirst);

/// Polls each work once and removes those that are done or have thrown; the first failure goes to
/// `first`. True when something moved.
bool pollAll(std::vector<std::unique_ptr<device::Work>>& works, std::exception_ptr& first);

}  // namespace tutti::communicator
