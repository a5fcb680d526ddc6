#pragma once

// makeLocalControlPlanes (control_plane.h) joins ranks that are threads of one process: a hub with
// one monitor thread, whatever the number of ranks, that moves messages from inbox to inbox. A rank
// whose control plane is destroyed without leave() is lost to the others, as a process would be.

#include "src/bootstrap/control_plane.h"

namespace tutti::bootstrap {

/// For tests: the rank of `plane`, which makeLocalControlPlanes made, dies. It sends and hears
/// nothing more, and every other rank is told that it is lost, with `how`.
void killLocalRank(ControlPlane& plane, const std::string& how);

}  // namespace tutti::bootstrap
