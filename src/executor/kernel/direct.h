#pragma once

// Direct messages: their payloads go from one host's device to the other's without passing through
// either host's memory (GPUDirect, where the network's card can). What a transport is told of them,
// and what a device needs so that its kernels see them.

#include <cstdint>

#include "transports/connection.h"
#include "transports/p2p/endpoint.h"

namespace tutti::executor::kernel {

/// Less does not travel, so that every message has room for a note: how many bytes it has, as its
/// receiver will check. Those of the ring's header are what travels, gaps included.
inline constexpr uint32_t kLeastTravel = transports::kLineBytes;

/// Tells `remote` where direct messages between this rank and `peer` lie, which is joined through
/// the host; nothing where none are direct. Before either of them sends. Throws InvalidArgument
/// where `remote` cannot do that.
void goDirect(const transports::p2p::P2pEndpoint& endpoint, transports::Endpoint& remote, int peer);

/// Makes what a network's card has written to a device's memory visible to its kernels, where the
/// device does not see to that itself.
class Arrivals {
 public:
  explicit Arrivals(int device);
  /// By a thread whose device is current.
  void flush() const;

 private:
  bool mustFlush_;
};

}  // namespace tutti::executor::kernel
