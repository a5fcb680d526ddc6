#pragma once

// Where the parts of an inbox lie (see endpoint.h for the picture). Both ends compute it from the
// layout, so no peer is trusted with an offset.

#include "transports/connection.h"

namespace tutti::transports::shm {

uint64_t blockBytes(const RingLayout& layout);
/// Where the block of `peer` lies in the inbox of `owner`.
uint64_t blockOffset(int owner, int peer, const RingLayout& layout);

/// Over so many bytes of each slot messages are spread: all slots of a ring together are then
/// larger than a core's first-level cache. An inbox ends by as many that nobody uses: a peer that
/// changes the size of a message behind the check moves its payload by less than that.
size_t spreadBytes(const RingLayout& layout);
std::atomic<uint32_t>* creditIn(std::byte* block, int channel);
/// Not 0: an operation of the rank that sends into this block has failed.
std::atomic<uint32_t>* failedIn(std::byte* block);
/// On which the rank sleeps whose inbox has the block.
base::SleepWord* sleepWordIn(std::byte* block);
std::byte* slotsIn(std::byte* block, int channel, const RingLayout& layout);

}  // namespace tutti::transports::shm
