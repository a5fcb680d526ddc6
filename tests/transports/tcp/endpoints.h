#pragma once

// Endpoints over TCP, and what breaks their connections, for tests of several files.

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "src/base/tcp_sockets.h"
#include "tests/transports/endpoints.h"
#include "tests/transports/tcp/fabrics.h"

namespace tutti::tests {

using Hubs = std::vector<std::shared_ptr<transports::tcp::TcpHub>>;

inline Hubs makeHubs(int count) {
  Hubs hubs;
  for (int i = 0; i < count; ++i) hubs.push_back(loopbackHub());
  return hubs;
}

inline Endpoints makeEndpoints(const Hubs& hubs, const transports::RingLayout& layout,
                               const transports::tcp::TcpOptions& options = {}) {
  Endpoints all;
  for (size_t r = 0; r < hubs.size(); ++r)
    all.push_back(transports::tcp::makeTcpEndpoint(hubs[r], static_cast<int>(r),
                                                   static_cast<int>(hubs.size()), layout, options));
  return all;
}

/// Sockets of this process that are connected; a connection within it has two.
inline std::vector<int> connectedSockets() {
  std::vector<int> sockets;
  for (const base::TcpSocket& each : base::tcpSockets())
    if (!each.isConnecting) sockets.push_back(each.socket);
  return sockets;
}

/// As a firewall does that has forgotten a connection: what is under way is lost, and the other end
/// gets a reset.
inline void reset(int socket) {
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  // Not by the C library: ThreadSanitizer would see another thread that uses the socket.
  ::syscall(SYS_connect, socket, &nobody, sizeof nobody);
}

}  // namespace tutti::tests
