#pragma once

#include <tutti/device.h>

namespace tutti::parallel {

/// Waits for `event`, which was recorded on `stream`. Throws the failure of what came before it,
/// which the event itself does not know of.
inline void waitUntilReached(Event& event, Stream& stream) {
  event.synchronize();
  stream.query();
}

}  // namespace tutti::parallel
