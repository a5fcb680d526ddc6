#pragma once

// For tests of what is done where devices are not joined.

namespace tutti::emulation {

/// From now on `device` has no peer access to `peer`.
void forbidPeerAccess(int device, int peer);

}  // namespace tutti::emulation
