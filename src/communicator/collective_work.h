#pragma once

// One issued collective as resumable work, and the two ways to run it: driven to its end by the
// caller, or polled by the progress engine.

#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include <tutti/communicator.h>

#include "src/device/host_stream.h"
#include "src/executor/host_operation.h"

namespace tutti::communicator {

class CollectiveWork final : public device::Work {
 public:
  CollectiveWork(std::shared_ptr<Communicator::Impl> communicator, uint64_t number,
                 const executor::Launch& launch);
  CollectiveWork(CollectiveWork&&) noexcept = default;
  CollectiveWork& operator=(CollectiveWork&&) noexcept = default;

  /// Idle until it is this operation's turn. Throws the communicator's failure.
  Status poll() override;
  bool sharesCores() const;

 private:
  void begin();
  void watch();  // deadlines and departures, looked at now and then
  Status disputed(const executor::MismatchSeen& seen);

  std::shared_ptr<Communicator::Impl> communicator_;
  uint64_t number_;
  executor::Launch launch_;
  bool running_ = false;
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
