#pragma once

// Operations of a process group: a Task is one that ends some time, and a JobQueue runs them in the
// order in which they were issued, one at a time. Either the queue's thread runs a job, or a thread
// that waits for it does: whichever comes first. So a caller that waits at once needs no other
// thread.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tutti_torch {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Ends once: well, or with an error. Any thread may call its methods.
class Task {
 public:
  explicit Task(milliseconds timeout) : deadline_(Clock::now() + timeout), timeout_(timeout) {}
  virtual ~Task() = default;

  bool isDone() const { return done_.load(std::memory_order_acquire); }
  /// Null unless it has ended with an error.
  std::exception_ptr error() const;
  /// Its second and later calls have no effect.
  void finish(std::exception_ptr error = nullptr);
  /// Calls `then` when it has ended, as tell() does; at once if it has.
  void whenDone(std::function<void()> then);
  /// Calls `land` before anybody hears of a good end. What it throws is the task's error.
  void beforeEnd(std::function<void()> land) { land_ = std::move(land); }
  /// Whether it has ended by then.
  bool waitUntil(Clock::time_point until);

  Clock::time_point deadline() const { return deadline_; }
  milliseconds timeout() const { return timeout_; }

 protected:
  /// Calls what whenDone() got. Called by the thread that ends the task.
  virtual void tell(std::vector<std::function<void()>> then);

 private:
  const Clock::time_point deadline_;
  const milliseconds timeout_;
  std::atomic<bool> done_{false};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr error_;
  std::vector<std::function<void()>> then_;
  std::function<void()> land_;
};

/// A task that a thread runs: `body` blocks until it is done, and throws.
class QueuedJob final : public Task {
 public:
  QueuedJob(milliseconds timeout, std::function<void()> body)
      : Task(timeout), body_(std::move(body)) {}
  /// Without the end, for which the queue cares.
  std::exception_ptr run();
  /// Ends it unrun, and lets go of what its body holds.
  void refuse(std::exception_ptr error);

 private:
  std::function<void()> body_;
};

/// Its threads keep it until close(). There is one, and another where what a job's end calls waits
/// for later jobs.
class JobQueue : public std::enable_shared_from_this<JobQueue> {
 public:
  void push(std::shared_ptr<QueuedJob> job);
  /// Runs it here if nothing else is queued or runs; otherwise as push().
  void runOrPush(const std::shared_ptr<QueuedJob>& job);
  /// Called by who waits for `job`: runs what is queued here, up to it, unless another thread does.
  /// It runs nothing behind `job`, which another thread may have to await first.
  void help(const QueuedJob& job);
  /// Runs what is queued, and ends the threads. No job runs when it returns, on any thread, and
  /// jobs that are pushed later end with an error. Called once, and not by a job's body.
  void close();

 private:
  using Lock = std::unique_lock<std::mutex>;
  void runFirst(Lock& lock);
  void execute(Lock& lock, const std::shared_ptr<QueuedJob>& job);
  void serve();
  void startThread();
  bool isThread() const;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<QueuedJob>> jobs_;
  std::vector<std::thread> threads_;
  size_t calling_ = 0;    // of these, those that tell of the end of a job, and may wait for others
  bool running_ = false;  // a thread runs a job
  bool closed_ = false;
};

}  // namespace tutti_torch
