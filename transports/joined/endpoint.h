#pragma once

// One endpoint over two transports: some peers are reached by the first, the others by the second.
// So a communicator over several hosts uses shared memory where it can.

#include <memory>
#include <vector>

#include "transports/connection.h"

namespace tutti::transports::joined {

/// `localNumbers` by rank: the peer's number in `local`, or kRemote where only `remote` reaches it.
/// In `remote` ranks have their own numbers. Both must have the same layout (InvalidArgument).
inline constexpr int kRemote = -1;
std::unique_ptr<Endpoint> makeJoinedEndpoint(std::unique_ptr<Endpoint> local,
                                             std::vector<int> localNumbers,
                                             std::unique_ptr<Endpoint> remote);

}  // namespace tutti::transports::joined
