#pragma once

// Groups for Python. A group keeps the buffers of its calls until the outermost one of its thread
// has ended, or hands them to the streams of the calls.

#include <nanobind/nanobind.h>

#include <memory>

#include "src/python/stream.h"

namespace tutti::python {

/// Whether this thread is in a group.
bool isInGroup();
/// For the outermost group of this thread: `stream` is null, or keeps the buffers afterwards.
void keepForGroup(Held buffers, nanobind::object stream,
                  std::shared_ptr<Communicator> communicator);

void registerGroups(nanobind::module_& m);

}  // namespace tutti::python
