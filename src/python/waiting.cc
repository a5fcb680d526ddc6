#include "src/python/waiting.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include <tutti/error.h>

namespace nb = nanobind;

namespace tutti::python {

namespace {

std::atomic<unsigned long>& mainThread() {
  static std::atomic<unsigned long> thread;
  return thread;
}

void rememberIt() {
  mainThread() = nb::cast<unsigned long>(
      nb::module_::import_("threading").attr("main_thread")().attr("ident"));
}

/// Whether a handler runs in a wait of the main thread. Protected by the GIL.
bool inHandler = false;

/// Sleeps for ever where an exception or the end of the thread unwinds the stack through it.
struct SleepsIfUnwound {
  ~SleepsIfUnwound() {
    while (!returned) pause();
  }
  bool returned = false;
};

}  // namespace

// Up to Python 3.13 the interpreter ends threads that want the GIL when it has ended, by
// pthread_exit(), which no frame of C++ that catches exceptions lets through: the process would be
// aborted.
GilReleased::~GilReleased() noexcept(false) {
  SleepsIfUnwound taking;
  PyEval_RestoreThread(state_);
  taking.returned = true;
}

// In a forked child the thread that has forked becomes the main one.
void rememberMainThread() {
  rememberIt();
  nb::module_::import_("os").attr("register_at_fork")(nb::arg("after_in_child") =
                                                          nb::cpp_function(&rememberIt));
}

bool isMainThread() { return mainThread() == static_cast<unsigned long>(::pthread_self()); }

void runSignalHandlers() {
  const nb::gil_scoped_acquire held;
  inHandler = true;
  const int result = PyErr_CheckSignals();
  inHandler = false;
  if (result != 0) throw nb::python_error();
}

void requireNoHandler() {
  if (inHandler && isMainThread())
    throw Error(ErrorCode::InvalidUsage,
                "a handler of signals cannot make this call while the main thread waits in another "
                "one; call abort() there, or raise an exception, or set a flag");
}

}  // namespace tutti::python
