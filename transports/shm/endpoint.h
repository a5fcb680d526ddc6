#pragma once

// Rings between the ranks of one host. Each rank has one inbox: a segment with a block for every
// peer, which holds the slots that the peer sends into and the credit words of the rings that lead
// to the peer. So what a rank waits for lies in its own memory, on its own NUMA node. A peer maps
// only its block; ranks of one process use the inbox itself, at one and the same address.
//
//   inbox of rank r:  | block of peer 0 | block of peer 1 | ... (none for r), each page-aligned
//   block of peer p:  credits of r -> p, one line for each channel, and whether an operation of p
//                     has failed; whether r sleeps; slots of p -> r by channel
//
// Where the system allows it, ranks also read each other's memory (peer_memory.h).
// TUTTI_SHM_ATTACH=0 keeps this rank out of that.

#include <memory>

#include "transports/connection.h"

namespace tutti::transports::shm {

/// Makes one rank's inbox. Throws InvalidArgument for an impossible layout, OutOfMemory when the
/// inbox cannot be had, or when the machine is too small for those of all ranks.
std::unique_ptr<Endpoint> makeShmEndpoint(int rank, int size, const RingLayout& layout);

/// Slots for `size` ranks, such that those of an inbox hold at most 8 MiB as long as they would not
/// shrink below 1 KiB; headers, credits and whole pages come on top. TUTTI_SLOT_BYTES overrides the
/// size of a slot.
RingLayout chooseLayout(int size, int channels);

/// Bytes of one rank's inbox.
uint64_t inboxBytes(int size, const RingLayout& layout);

}  // namespace tutti::transports::shm
