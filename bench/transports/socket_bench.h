#pragma once

// A transport by itself over TCP on the loopback, between two processes, beside a plain TCP socket
// with a reader that polls: what the machine's network costs without any library.
//
//   8-byte ping-pong    half of a round trip, microseconds
//   stream              S bytes from the sender's buffer into the receiver's. The transport copies
//                       them into slots and out of them, the socket does not.
//
// Variants are interleaved; figures are medians.

#include <functional>
#include <memory>

#include "bench/transports/ring_bench.h"

namespace tutti::bench {

/// One of two ranks.
using MakeEndpoint = std::function<std::unique_ptr<transports::Endpoint>(
    int rank, const transports::RingLayout& layout)>;

/// The main() of such a benchmark: `begin` is called in both processes. The first argument is the
/// number of repetitions.
int besideASocket(int argc, char** argv, const std::function<MakeEndpoint()>& begin);

}  // namespace tutti::bench
