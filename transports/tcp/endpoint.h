#pragma once

// Rings between ranks whose hosts a network joins, over TCP connections of this library's own. Each
// is proved by a secret that the two ends have exchanged over the control plane, and made when the
// first ring between the two is used. One hub of a process listens, connects and serves endpoints
// whose ranks compute.

#include <chrono>
#include <memory>
#include <string>

#include "src/wire/address.h"
#include "transports/connection.h"

namespace tutti::transports::tcp {

class TcpHub;

struct HubOptions {
  /// Where to listen, with port 0; peers reach it there.
  wire::Address place;
  /// For messages: what that is, "eth0" or "eth0 (TUTTI_INTERFACE=eth0)".
  std::string device = {};
};

/// Between two ranks; those above `encrypts` must be equal on both.
struct TcpOptions {
  uint32_t streams = 1;  ///< connections between two ranks; 1 to kMostStreams
  bool encrypts = false;
  /// Mixed into the secret, where both ranks have been given it by another way.
  std::string preSharedKey = {};
  /// How long a connection that broke is tried again while the other process lives; 0: never.
  std::chrono::milliseconds reconnect{2000};
  /// Of all packets, as IP has it: the DSCP is its upper six bits. -1: the system's.
  int trafficClass = -1;
};
inline constexpr uint32_t kMostStreams = 16;

/// Listens, and starts the thread of it. Throws System naming the address.
std::shared_ptr<TcpHub> makeHub(const HubOptions& options);

/// One rank's end. Its progress() throws PeerLost, once for each peer, when the connection with a
/// peer was lost for good, and Refused when a peer sent what cannot be. Throws InvalidArgument for
/// an impossible layout or number of streams.
std::unique_ptr<Endpoint> makeTcpEndpoint(std::shared_ptr<TcpHub> hub, int rank, int size,
                                          const RingLayout& layout, const TcpOptions& options = {});

}  // namespace tutti::transports::tcp
