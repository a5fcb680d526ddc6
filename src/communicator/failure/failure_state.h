#pragma once

// FailureState: whether, why and when a communicator has failed. It owns the first failure, and the
// lock and the condition of everything that waits for news of other ranks: one for all, so that a
// wait looks at the failure and at what it waits for together. Any thread may call it.
//
// `mutex_` protects the failure and its time, and what Peers, Votes and GpuBackend say that it
// does. The locks of the recorders and of GPU executors may be taken under it, and never the other
// way round. A failure aborts the GPU while `mutex_` is held, so that no GpuRank is set or taken
// away meanwhile.
//
// `failed_` is set with the failure, in sequentially consistent order with the flag of HostExecutor
// that an operation runs: an operation raises that flag and then looks at `failed_`; shrink() and
// subset() see `failed_` set and then look at the flag. So an operation either sees the failure or
// is waited for.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include <tutti/error.h>

#include "src/base/clock.h"
#include "src/communicator/membership.h"
#include "src/communicator/messages.h"

namespace tutti::communicator {

class FailureState {
 public:
  using Lock = std::unique_lock<std::mutex>;
  struct Effects {
    /// Ends what is under way on the GPU. Called once, under the lock.
    std::function<void()> abort;
    /// The operations that are kept, at most so many, for the log.
    std::function<std::string(size_t lines)> recorded;
  };
  /// Enters the handler of Failure.
  FailureState(const Membership& who, Messages& messages, Effects effects);

  /// Only the first one counts.
  void fail(const Error& error, bool tellOthers);
  /// Where there is no memory to say more: aborted.
  void failWithoutReason() { failed_.store(true, std::memory_order_seq_cst); }
  void tell(const Error& error);
  /// Before this rank does what would end the others' calls for a lesser reason: whatever failed
  /// here first, others may not have heard of it. False where nothing failed, but was aborted.
  bool passOn();

  bool hasFailed() const { return failed_.load(std::memory_order_acquire); }
  /// After the flag of the executor was raised; see above.
  bool hasFailedInOrder() const { return failed_.load(std::memory_order_seq_cst); }
  void throwIfFailed() const;
  [[noreturn]] void throwFailure() const;
  [[noreturn]] void throwFailure(const Lock& lock) const;
  /// Whether a call has thrown it.
  bool wasThrown() const { return thrown_.load(std::memory_order_acquire); }
  std::optional<Error> reason() const;
  /// Asks to stop when the first failure is there, on the thread that sets it.
  std::stop_token ended() const { return ended_.get_token(); }

  Lock lock() const { return Lock(mutex_); }
  const std::optional<Error>& reason(const Lock&) const { return failure_; }
  int64_t failedAtNs(const Lock&) const { return failedAtNs_; }
  /// After a change of what somebody may wait for.
  void notify() const { changed_.notify_all(); }
  /// Until `ready` holds, or for so long.
  template <class Duration, class Ready>
  bool wait(Lock& lock, Duration longest, Ready ready) const {
    return changed_.wait_for(lock, longest, std::move(ready));
  }
  /// Until something has changed, or for so long.
  template <class Duration>
  void wait(Lock& lock, Duration longest) const {
    changed_.wait_for(lock, longest);
  }

 private:
  const Membership& who_;
  Messages& messages_;
  const Effects effects_;
  const base::SteadyClock clock_;
  std::atomic<bool> failed_{false};
  mutable std::atomic<bool> thrown_{false};
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<Error> failure_;
  int64_t failedAtNs_ = 0;
  std::stop_source ended_;
};

}  // namespace tutti::communicator
