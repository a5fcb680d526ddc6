#include "src/python/waiting.h"

#include <pthread.h>

#include <atomic>

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

}  // namespace

// In a forked child the thread that has forked becomes the main one.
void rememberMainThread() {
  rememberIt();
  nb::module_::import_("os").attr("register_at_fork")(nb::arg("after_in_child") =
                                                          nb::cpp_function(&rememberIt));
}

bool isMainThread() { return mainThread() == static_cast<unsigned long>(::pthread_self()); }

void runSignalHandlers() {
  const nb::gil_scoped_acquire held;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace tutti::python
