#pragma once

// Host streams and the progress engine. A stream is a queue of Work; the engine is the one thread
// of a process that polls the head of every stream. Work never blocks: it is resumable.
//
// In a forked child the engine does not exist, so streams and events of the parent are inert there:
// calls throw InvalidUsage, and their owners abandon them.

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "src/base/backoff.h"
#include "src/base/process.h"

namespace tutti::device {

/// One item of a stream.
class Work {
 public:
  enum class Status { Done, Moved, Idle };
  virtual ~Work() = default;
  /// Does what can be done without waiting. A throw counts as done, and as the stream's failure.
  virtual Status poll() = 0;
  /// Where a thread sleeps that waits for it; null if nobody can wake it.
  virtual base::SleepPlace* sleepPlace() { return nullptr; }
};

class ProgressEngine;

class HostStream : public std::enable_shared_from_this<HostStream> {
 public:
  /// A stream of the process's engine, which is started when needed and ends with its last stream.
  static std::shared_ptr<HostStream> create();
  ~HostStream();

  void enqueue(std::unique_ptr<Work> work);
  /// Waits for what was enqueued before the call, and not for what others enqueue meanwhile; throws
  /// the first failure among it. InvalidUsage when called by work that would wait for itself.
  void synchronize();
  bool query();
  /// Whether all that was enqueued has ended; says nothing of failures.
  bool idle();
  /// What the last owner does: waits for everything enqueued and lets the stream go; a failure that
  /// nobody has seen goes to the log. Work that owns
  /// a stream cannot wait for it, so the engine keeps that one until its queue is empty; in a
  /// forked child the stream is abandoned.
  static void retire(std::shared_ptr<HostStream> stream);

 private:
  friend class ProgressEngine;
  explicit HostStream(std::shared_ptr<ProgressEngine> engine);
  /// Polls the head; by the engine's thread only. Done when the queue was empty, Moved when the
  /// head got further or was finished, Idle when it waits.
  Work::Status step();
  void finishHead(std::exception_ptr failure);
  void wait(std::unique_lock<std::mutex>& lock, uint64_t ticket);
  /// The first failure among the works up to `ticket`; with it all of them are seen.
  std::exception_ptr takeFailure(uint64_t ticket);
  static void logUnseen(const std::exception_ptr& failure);

  struct Failure {
    uint64_t first, last;  // tickets for which it stands
    std::exception_ptr what;
  };

  const std::shared_ptr<ProgressEngine> engine_;
  const base::ProcessGuard guard_;
  std::mutex mutex_;
  std::condition_variable progress_;
  std::deque<std::unique_ptr<Work>> queue_;
  // Works are numbered from 1 in the order of their enqueueing, which is that of their end.
  uint64_t enqueued_ = 0;
  uint64_t finished_ = 0;
  std::deque<Failure> failures_;  // not yet seen, by ticket
};

/// One record of an event: reached once, and for ever.
class Mark {
 public:
  void reach();
  bool reached() const;
  void wait();

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
};

/// The state behind Event: its latest record. Whoever waits keeps the record that he found, so that
/// recording again moves nothing under him.
class HostEvent {
 public:
  void record(std::shared_ptr<Mark> mark);
  std::shared_ptr<Mark> latest() const;  ///< null when there is none
  const base::ProcessGuard& guard() const { return guard_; }

 private:
  const base::ProcessGuard guard_{};
  mutable std::mutex mutex_;
  std::shared_ptr<Mark> latest_;
};

}  // namespace tutti::device
