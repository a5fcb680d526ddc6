#pragma once

#include <tutti/device.h>
#include "parallel/mesh/trace.h"

namespace tutti::parallel {

/// Waits for `event`, which was recorded on `stream`; `trace` has it under `name`. Throws the
/// failure of what came before it, which the event itself does not know of.
inline void waitUntilReached(Event& event, Stream& stream, Trace& trace, const char* name) {
  const Trace::Wait wait(trace, name);
  event.synchronize();
  stream.query();
}

}  // namespace tutti::parallel
