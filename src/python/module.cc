// The extension tutti._core. It is private: the package's Python sources are the interface, with
// types and documentation.

#include <nanobind/nanobind.h>

#include "src/python/communicator.h"
#include "src/python/errors.h"
#include "src/python/group.h"
#include "src/python/stream.h"
#include "src/python/waiting.h"

NB_MODULE(_core, m) {
  // Communicators that live until the process ends are no leak.
  nanobind::set_leak_warnings(false);
  tutti::python::rememberMainThread();
  tutti::python::registerErrors(m);
  tutti::python::registerStreams(m);
  tutti::python::registerGroups(m);
  tutti::python::registerCommunicator(m);
  m.def("size_of", [](const char* dtype) { return sizeOf(tutti::python::typeOfName(dtype)); });
}
