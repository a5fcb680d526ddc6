#pragma once

// RDMA devices of this host.

#include <string>
#include <vector>

namespace tutti::base {

/// Those that this process may open and whose link is up. In a container a device may be seen and
/// not be there.
std::vector<std::string> usableRdmaDevices();

}  // namespace tutti::base
