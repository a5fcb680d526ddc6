#pragma once

// InterruptibleWait on Python's threads. No wait holds the GIL. On the main thread a wait also runs
// Python's handlers of signals, about ten times a second; what they raise, as KeyboardInterrupt,
// ends it.

#include <nanobind/nanobind.h>

#include <chrono>
#include <functional>
#include <future>
#include <optional>

#include <tutti/wait_check.h>

namespace tutti::python {

/// To be called when the module is loaded.
void rememberMainThread();
bool isMainThread();
/// Takes the GIL. Throws what a handler raises.
void runSignalHandlers();
/// A call within a handler that runs in a wait would wait for what the outer call holds up: throws
/// InvalidUsage.
void requireNoHandler();

/// While it lives, the GIL is free. Where the interpreter has ended meanwhile, the thread sleeps
/// until the process ends, as Python 3.14 has it.
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  ~GilReleased() noexcept(false);  // for the end of the thread, which is no exception
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
};

/// Calls that wait in the library on this thread are checked, and the GIL is free. Throws
/// InvalidUsage in a handler that runs in a wait.
class InterruptibleWait {
 public:
  InterruptibleWait() {
    if (isMainThread()) check_.emplace(&runSignalHandlers);
  }

 private:
  struct NoHandler {
    NoHandler() { requireNoHandler(); }
  };

  NoHandler noHandler_;
  GilReleased released_;
  std::optional<WaitCheck> check_;
};

/// Destroys what may wait for other ranks. The GIL is held before and after, but by threads of the
/// library.
struct DeleteWithoutGil {
  template <class T>
  void operator()(T* object) const {
    std::optional<GilReleased> released;
    if (PyGILState_GetThisThreadState() != nullptr) released.emplace();
    delete object;
  }
};

/// Returns what `make` returns, which sets up a communicator. If a handler raises meanwhile, `stop`
/// is called, which should soon end `make`, and this throws what was raised.
template <class Make>
auto setUp(const Make& make, const std::function<void()>& stop) {
  requireNoHandler();
  const GilReleased released;
  if (!isMainThread()) return make();
  auto made = std::async(std::launch::async, make);
  while (made.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    try {
      runSignalHandlers();
    } catch (...) {
      stop();
      made.wait();
      throw;
    }
  }
  return made.get();
}

}  // namespace tutti::python
