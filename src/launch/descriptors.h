#pragma once

// Open files of who launches ranks.

#include <cstdint>

namespace tutti::launcher {

/// For each rank two pipes, the process itself, and its connection to the rendezvous, which is
/// the launcher's; and some for itself.
constexpr uint64_t launcherDescriptors(int ranks) { return 4 * static_cast<uint64_t>(ranks) + 64; }

}  // namespace tutti::launcher
