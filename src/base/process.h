#pragma once

// Noticing a fork. Threads do not survive it, and whatever they held or were changing at that
// moment stays so for ever: mutexes locked, conditions with waiters, containers half changed. So
// what threads share is inert in a forked child: calls refuse, and destructors touch nothing.

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <mutex>

namespace tutti::base {

/// A number that differs between a process and its forked children. As cheap as a load.
uint64_t processGeneration();

/// Remembers in which process it was made.
class ProcessGuard {
 public:
  bool inForkedChild() const { return processGeneration() != generation_; }
  /// Throws InvalidUsage in a forked child. `what` was called there.
  void requireOwner(const char* what) const;

 private:
  uint64_t generation_ = processGeneration();
  pid_t owner_ = ::getpid();
};

/// Keeps `state` reachable until the process ends, without running its destructor.
void abandon(std::shared_ptr<void> state);

/// For process-wide state that lives for ever: forked children find `mutex` free, whoever held it
/// at the fork. A few times in a process.
void freeInForkedChildren(std::mutex& mutex);

}  // namespace tutti::base
