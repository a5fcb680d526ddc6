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

std::map<uint32_t, uint64_t> socketTraffic() {
  std::map<uint32_t, uint64_t> traffic;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", none)) {
    const std::string name = entry.path().filename();
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
    traffic[peer.sin_addr.s_addr] += info.tcpi_bytes_acked + info.tcpi_bytes_received;
  }
  return traffic;
}

}  // namespace tutti::transports::ucx
