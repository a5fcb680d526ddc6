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

/// Calls that wait in the library on this thread are checked, and the GIL is free.
class InterruptibleWait {
 public:
  InterruptibleWait() {
    if (isMainThread()) check_.emplace(&runSignalHandlers);
  }

 private:
  nanobind::gil_scoped_release released_;
  std::optional<WaitCheck> check_;
};

/// Destroys what may wait for other ranks. The GIL is held before and after.
struct DeleteWithoutGil {
  template <class T>
  void operator()(T* object) const {
    const nanobind::gil_scoped_release released;
    delete object;
  }
};

/// Returns what `make` returns, which sets up a communicator. If a handler raises meanwhile, `stop`
/// is called, which should soon end `make`, and this throws what was raised.
template <class Make>
auto setUp(const Make& make, const std::function<void()>& stop) {
  const nanobind::gil_scoped_release released;
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
