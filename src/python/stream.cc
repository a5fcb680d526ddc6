#include "src/python/stream.h"

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "src/python/waiting.h"

namespace nb = nanobind;

namespace tutti::python {

// What goes may run finalizers of Python, which may call this stream: it must not see the queue
// half done.
void HostStreamOfPython::prune() {
  std::vector<Kept> gone;
  while (!kept_.empty() && kept_.front().number <= ended_->load()) {
    gone.push_back(std::move(kept_.front()));
    kept_.pop_front();
  }
}

void HostStreamOfPython::keep(Held buffers, std::shared_ptr<Communicator> communicator) {
  prune();
  const uint64_t number = ++enqueued_;
  const auto ofCall = std::make_shared<CommunicatorOfCall>(std::move(communicator));
  kept_.push_back({number, std::move(buffers), ofCall});
  stream_->enqueue([ended = ended_, number, ofCall] {
    ofCall->callHasEnded();
    *ended = number;
  });
}

// The library's wait cannot be interrupted, so this one polls: until all that is enqueued by now
// has ended, whether or not it failed. query() tells of the failure, and does not wait for what
// other threads have enqueued meanwhile.
void HostStreamOfPython::awaitOnMainThread() {
  using namespace std::chrono_literals;
  const auto begin = std::chrono::steady_clock::now();
  auto looked = begin;
  Event end;
  end.record(*stream_);
  while (!end.query()) {
    const auto now = std::chrono::steady_clock::now();
    if (now - begin < 1ms)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(100us);
    if (now - looked < 100ms) continue;
    looked = now;
    runSignalHandlers();
  }
  stream_->query();
}

void HostStreamOfPython::synchronize() {
  requireNoHandler();
  const auto communicators = kept_;
  try {
    const GilReleased released;
    if (isMainThread())
      awaitOnMainThread();
    else
      stream_->synchronize();
  } catch (const nb::python_error&) {
    const GilReleased released;
    for (const Kept& each : communicators) each.communicator->abort();
    try {
      stream_->synchronize();
    } catch (const Error&) {  // Aborted: the exception of the handler tells more
    }
    throw;
  }
  prune();
}

// An exception may be on its way through the frame that had the stream.
HostStreamOfPython::~HostStreamOfPython() {
  const nb::error_scope error;
  try {
    synchronize();
  } catch (nb::python_error& e) {
    if (e.matches(PyExc_KeyboardInterrupt))
      PyErr_SetInterrupt();
    else
      e.discard_as_unraisable("a handler of signals, while a tutti.Stream ended");
  } catch (const Error&) {  // of calls that nobody has waited for; or in a handler of signals
  }
}

bool HostStreamOfPython::query() {
  const bool done = stream_->query();
  prune();
  return done;
}

void registerStreams(nb::module_& m) {
  nb::class_<HostStreamOfPython>(m, "Stream")
      .def(nb::init<>())
      .def("synchronize", &HostStreamOfPython::synchronize)
      .def("query", &HostStreamOfPython::query);
}

}  // namespace tutti::python
