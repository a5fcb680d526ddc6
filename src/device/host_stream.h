#pragma once

// Host streams and the progress engine. A stream is a queue of Work; the engine is the one thread
// of a process that polls the head of every stream. Work never blocks: it is resumable.

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace tutti::device {

/// One item of a stream.
class Work {
 public:
  enum class Status { Done, Moved, Idle };
  virtual ~Work() = default;
  /// Does what can be done without waiting. A throw counts as done, and as the stream's failure.
  virtual Status poll() = 0;
};

class Engine;

class HostStream : public std::enable_shared_from_this<HostStream> {
 public:
  /// A stream of the process's engine, which is started when needed and ends with its last stream.
  static std::shared_ptr<HostStream> create();
  ~HostStream();

  void enqueue(std::unique_ptr<Work> work);
  void synchronize();
  bool query();
  /// The next failure that synchronize() would throw, taken; null when there is none.
  std::exception_ptr takeFailure();

 private:
  friend class Engine;
  explicit HostStream(std::shared_ptr<Engine> engine);
  /// Polls the head; by the engine's thread only. Idle when there was nothing to do.
  Work::Status step();
  void wait(std::unique_lock<std::mutex>& lock);

  const std::shared_ptr<Engine> engine_;
  const uint64_t generation_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<std::unique_ptr<Work>> queue_;
  std::exception_ptr failure_;
};

/// The state behind Event: how many records were asked for, and how many were reached.
class HostEvent {
 public:
  uint64_t mark();  ///< a new record; returns its number
  void reach(uint64_t number);
  uint64_t latest() const;
  bool reached(uint64_t number) const;
  void wait(uint64_t number);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t marked_ = 0;
  uint64_t reached_ = 0;
};

}  // namespace tutti::device
