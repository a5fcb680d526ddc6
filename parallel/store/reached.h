#pragma once

#include <tutti/device.h>
#include "parallel/mesh/trace.h"

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

}  // namespace tutti::parallel
