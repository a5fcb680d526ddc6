#pragma once

// The inboxes of this process, by number. Ranks that share a process recognise each other by the
// process's random token and use each other's inbox at the owner's own address: nothing is mapped
// twice, and ThreadSanitizer sees which accesses concern the same memory.

#include <array>
#include <cstdint>
#include <memory>

#include "transports/shm/segment.h"

namespace tutti::transports::shm {

using ProcessToken = std::array<std::byte, 16>;

/// Random, and another one in every process, forked ones included.
ProcessToken processToken();

/// Makes the inbox of a rank findable for as long as somebody owns it. Its number is never used
/// again.
uint64_t registerInbox(const std::shared_ptr<Segment>& inbox, int rank);

/// Null when no rank of this number has such an inbox in this process, or no longer.
std::shared_ptr<Segment> findInbox(uint64_t number, int rank);

}  // namespace tutti::transports::shm
