#pragma once

// Ports of the loopback that nobody uses.

namespace tutti::launchers {

/// Such that the next one is free too (where torchrun's store has this one, a job with a key takes
/// the next). Somebody else may take them before the test does: nothing but luck keeps them.
int freePort();

}  // namespace tutti::launchers
