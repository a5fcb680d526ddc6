#pragma once

// Ports of the loopback that nobody uses.

namespace tutti::launchers {

/// Such that the next one is free too (where torchrun's store has this one, a job with a key takes
/// the next), and not one of those that the system hands out: those are soon somebody else's.
int freePort();

}  // namespace tutti::launchers
