#include "transports/ucx/socket_traffic.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>

namespace tutti::transports::ucx {

std::map<uint32_t, SocketTraffic> socketTraffic() {
  std::map<uint32_t, SocketTraffic> traffic;
  std::error_code error;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error); !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename();
    int socket = -1;
    std::from_chars(name.data(), name.data() + name.size(), socket);
    tcp_info info{};
    socklen_t length = sizeof info;
    sockaddr_in peer{};
    socklen_t bytes = sizeof peer;
    // Fails for all that is no TCP socket, or not connected. An older kernel says less.
    if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
        length < offsetof(tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received ||
        ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0 ||
        peer.sin_family != AF_INET)
      continue;
    SocketTraffic& its = traffic[peer.sin_addr.s_addr];
    its.bytes += info.tcpi_bytes_acked + info.tcpi_bytes_received;
    its.isWaiting |= info.tcpi_unacked > 0;
  }
  return traffic;
}

}  // namespace tutti::transports::ucx
