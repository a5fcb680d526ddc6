#pragma once

// Streams of the host for Python. A stream keeps the buffers of its calls until these have ended.

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include <tutti/communicator.h>
#include <tutti/device.h>

#include "src/python/buffer.h"
#include "src/python/waiting.h"

namespace tutti::python {

/// Shared by what may use it last: a prepared call and the streams that run it.
using Held = std::shared_ptr<const ArrayBuffers>;

/// Of a call on a stream, until it has ended: a rank leaves when its calls have ended, also if
/// nobody looks at the stream then.
class CommunicatorOfCall {
 public:
  explicit CommunicatorOfCall(std::shared_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)) {}
  /// On the stream's thread.
  void callHasEnded() {
    std::shared_ptr<Communicator> gone;  // not under the lock
    const std::lock_guard lock(mutex_);
    gone.swap(communicator_);
  }
  void abort() {
    std::unique_lock lock(mutex_);
    const auto communicator = communicator_;
    lock.unlock();
    if (communicator) communicator->abort();
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<Communicator> communicator_;
};

class HostStreamOfPython {
 public:
  HostStreamOfPython() = default;
  /// Waits as synchronize() does. Ctrl-C is raised later, in the code that runs next.
  ~HostStreamOfPython();
  HostStreamOfPython(const HostStreamOfPython&) = delete;
  HostStreamOfPython& operator=(const HostStreamOfPython&) = delete;

  StreamRef ref() const { return *stream_; }
  /// Keeps what the calls use that were enqueued before. `communicator` is aborted if a wait for
  /// them is interrupted.
  void keep(Held buffers, std::shared_ptr<Communicator> communicator);
  void synchronize();
  bool query();

 private:
  struct Kept {
    uint64_t number;
    Held buffers;
    std::shared_ptr<CommunicatorOfCall> communicator;
  };

  void prune();
  void awaitOnMainThread();

  const std::shared_ptr<std::atomic<uint64_t>> ended_ = std::make_shared<std::atomic<uint64_t>>(0);
  uint64_t enqueued_ = 0;
  std::deque<Kept> kept_;  // protected by the GIL
  // The first to go: it waits for all work.
  const std::unique_ptr<Stream, DeleteWithoutGil> stream_{new Stream()};
};

void registerStreams(nanobind::module_& m);

}  // namespace tutti::python
