#pragma once

// One endpoint over two transports: some peers are reached by the first, the others by the second.
// So a communicator over several hosts uses shared memory where it can.

#include <memory>
#include <vector>

#include "transports/connection.h"

namespace tutti::transports::joined {

/// `nearNumbers` by rank: the peer's number in `near`, or kFar where only `far` reaches it. In
/// `far` ranks have their own numbers. Both must have the same layout (InvalidArgument).
inline constexpr int kFar = -1;
std::unique_ptr<Endpoint> makeJoinedEndpoint(std::unique_ptr<Endpoint> near,
                                             std::vector<int> nearNumbers,
                                             std::unique_ptr<Endpoint> far);

}  // namespace tutti::transports::joined
