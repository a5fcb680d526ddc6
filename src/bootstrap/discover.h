#pragma once

// discover (bootstrap.h) over any source of variables.

#include "src/bootstrap/bootstrap.h"
#include "src/bootstrap/launchers.h"

namespace tutti::bootstrap {

Identity discover(const CommunicatorOptions& options, const Lookup& lookup);

/// UniqueId::at().
UniqueId idAt(const std::string& address, const Lookup& lookup);

}  // namespace tutti::bootstrap
