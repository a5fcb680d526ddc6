#pragma once

// Whether a peer's place leads to the peer: a connection beside those of the data, on which both
// ends prove themselves, and nothing follows.

#include <memory>

#include "transports/connection.h"
#include "transports/tcp/peer.h"

namespace tutti::transports::tcp {

/// Throws System where this process has no descriptor or port left for it.
std::unique_ptr<ReachabilityProbe> probePlace(const Dial& dial);

}  // namespace tutti::transports::tcp
