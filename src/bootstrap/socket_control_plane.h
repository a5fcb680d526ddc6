#pragma once

// The control plane between processes: a Unix or TCP socket to every other rank and one monitor
// thread, which sends, receives, calls listeners and watches the processes of this host by pidfd. A
// peer that ends has what it sent before delivered first, then it is lost; so is one whose host
// does not answer.

#include "src/bootstrap/control_plane.h"
#include "src/wire/secrets.h"

namespace tutti::bootstrap {

/// Most bytes that wait to be sent to one peer; beyond, the peer counts as failed.
inline constexpr size_t kMaxQueuedBytes = size_t{64} << 20;

/// A connection with another rank, and the keys of its two directions.
struct PeerSocket {
  base::FileDescriptor socket;
  wire::Key sending{}, receiving{};
};
/// With keys that follow from those of the connection's handshake.
PeerSocket sealedSocket(base::FileDescriptor socket, const wire::Key& session, int rank, int peer);

/// `sockets` and `peers` by rank; the own socket is empty. Both ends of a socket must be used only
/// by this.
std::shared_ptr<ControlPlane> makeSocketControlPlane(int rank, std::vector<PeerInfo> peers,
                                                     std::vector<PeerSocket> sockets);

/// Descriptors that makeSocketControlPlane keeps for a world of `size`.
size_t socketControlPlaneDescriptors(int size);

}  // namespace tutti::bootstrap
