#pragma once

#include <tutti/communicator.h>

namespace tutti::tools {

/// Collective: an id that rank 0 has made, for further communicators of the same processes.
UniqueId commonId(Communicator& c);

}  // namespace tutti::tools
