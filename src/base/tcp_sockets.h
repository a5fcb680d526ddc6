#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/base/file_descriptor.h"

struct sockaddr;

namespace tutti::base {

/// A TCP socket of this process that is connected or just connecting, whoever has made it, and what
/// the kernel has counted.
struct TcpSocket {
  int socket = -1;
  bool isConnecting = false;
  uint64_t bytes = 0;                      ///< received, and sent and acknowledged
  uint64_t packets = 0;                    ///< sent with data, those sent again among them
  uint64_t sentAgain = 0;                  ///< packets
  bool isWaiting = false;                  ///< for the other end to acknowledge some
  std::optional<double> roundTripMs = {};  ///< the least of late
};

/// None where /proc cannot be read, or an older kernel counts less.
std::vector<TcpSocket> tcpSockets();
/// The other ends' addresses of IPv4, as the network orders their bytes; 0 for what has none. Of a
/// socket that is connecting only the kernel's table tells it, which is of all processes and long.
std::vector<uint32_t> peersOf(std::span<const TcpSocket> sockets);
/// Whether a socket that connects to `to` has that for its own address. The kernel may choose it
/// where nobody listens at a port of its ephemeral range; such a socket is connected to itself.
bool isConnectedToItself(int socket, const sockaddr& to);
/// Closes a socket at once, by a reset, so that its port is free.
void closeByReset(FileDescriptor socket);

}  // namespace tutti::base
