#pragma once

// One collective as resumable work, and the two ways to run it: driven to its end by the caller, or
// polled by the progress engine. Once it has its number, all later operations of the communicator
// wait for it; so it either ends or fails the communicator, whatever becomes of it.

#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include <tutti/communicator.h>

#include "src/communicator/recorder.h"
#include "src/device/host_stream.h"
#include "src/executor/host_operation.h"

namespace tutti::communicator {

class CollectiveWork final : public device::Work {
 public:
  CollectiveWork(std::shared_ptr<Communicator::Impl> communicator, const CallFacts& facts,
                 const executor::Launch& launch);
  ~CollectiveWork() override;  ///< fails the communicator when it has a number and has not ended
  CollectiveWork(CollectiveWork&&) noexcept = default;
  CollectiveWork& operator=(CollectiveWork&&) noexcept = default;

  /// Gives it the next number of its communicator. By the thread that issues, before poll().
  void takeNumber();
  /// Idle until it is this operation's turn. Whatever it throws is the communicator's failure, an
  /// Error.
  Status poll() override;
  bool sharesCores() const;

 private:
  Status step();
  void begin();
  void watch();  // deadlines and departures, looked at now and then
  Status disputed(const executor::MismatchSeen& seen);
  void end(Phase phase);
  [[noreturn]] void failedBy(ErrorCode code, const char* what);

  std::shared_ptr<Communicator::Impl> communicator_;
  CallFacts facts_;
  executor::Launch launch_;
  uint64_t number_ = 0;
  bool running_ = false;
  bool ended_ = false;
  int64_t startedNs_ = 0;
  int64_t disputedNs_ = 0;
  std::optional<executor::MismatchSeen> dispute_;
  uint32_t idlePolls_ = 0;
};

/// Polls until the work is done; throws its failure.
void drive(CollectiveWork& work, bool spinFirst);

/// Polls each work once and removes those that are done or have thrown; the first failure goes to
/// `first`. True when something moved.
bool pollAll(std::vector<CollectiveWork>& works, std::exception_ptr& first);

bool groupIsOpen();
void addToGroup(CollectiveWork work, StreamRef stream);

}  // namespace tutti::communicator
