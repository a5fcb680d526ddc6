#pragma once

#include <tutti/device.h>
#include "parallel/mesh/device_mesh.h"

namespace tutti::parallel {

/// Waits for `event`, which was recorded on `stream`, if it is not reached yet: `trace` has that
/// under `name`, as a wait for `awaited`. Throws the failure of what came before it, which the
/// event itself does not know of.
inline void waitUntilReached(Event& event, Stream& stream, Trace& trace, const char* name,
                             Awaited awaited) {
  if (!event.query()) {
    const Trace::Wait wait(trace, name, awaited);
    event.synchronize();
  }
  stream.query();
}

/// What is computed next comes behind `event`, which was recorded on `stream`: on the host that is
/// to wait for it; on a GPU the stream of the kernels waits, and nobody here does.
inline void continueBehind(Event& event, Stream& stream, DeviceMesh& mesh, const char* name,
                           Awaited awaited) {
  if (mesh.stream())
    event.wait(mesh.stream());
  else
    waitUntilReached(event, stream, mesh.trace(), name, awaited);
}

}  // namespace tutti::parallel
