#pragma once

// For tests of what is done where devices are not joined, or badly.

namespace tutti::emulation {

/// From now on `device` has no peer access to `peer`.
void forbidPeerAccess(int device, int peer);
/// From now on, where a kernel on `device` raises a flag in memory of `peer`, one bit of the line
/// behind the flag is another than was written. In memory of this process alone.
void corruptWrites(int device, int peer);

}  // namespace tutti::emulation
