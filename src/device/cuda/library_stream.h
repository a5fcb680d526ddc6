#pragma once

// Streams of the library's own.

#include <cuda_runtime_api.h>

namespace tutti::device {

/// What a stream is for. CUDA deals the queues of a device out in turn to the streams of one
/// priority, and what waits at the head of one holds up all that is behind it. Streams of different
/// priorities share none, as far as is known: so each purpose has one, which callers' streams
/// seldom have, the greatest and those below it. The one above the least is that of streams on
/// which kernels of training look at ids (parallel/kernels/cuda/queue.cc).
enum class StreamPurpose {
  SetUp,   ///< and watching: small copies, for which nothing may wait
  Probes,  ///< of pairs of devices, which wait for each other
  Copies,  ///< that a thread waits for, behind what the legacy default stream holds
  Calls,   ///< of a communicator's rank whose caller has no stream
};

/// Of the current device. It belongs to the caller.
cudaStream_t makeLibraryStream(StreamPurpose purpose);

/// The process's one stream of the device for that purpose. It stays: whoever makes streams later
/// would get queues in another order.
cudaStream_t sharedStream(StreamPurpose purpose, int device);

}  // namespace tutti::device
