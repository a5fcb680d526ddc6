#include "src/base/tcp_sockets.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>

namespace tutti::base {
namespace {

// The kernel's number; glibc has the name beside a tcp_info of its own.
constexpr uint8_t kEstablished = 1;

}  // namespace

std::vector<TcpSocket> tcpSockets() {
  std::vector<TcpSocket> sockets;
  std::error_code error;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error); !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename();
    int socket = -1;
    std::from_chars(name.data(), name.data() + name.size(), socket);
    tcp_info info{};
    socklen_t length = sizeof info;
    // Fails for all that is no TCP socket.
    if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
        length < offsetof(tcp_info, tcpi_data_segs_out) + sizeof info.tcpi_data_segs_out ||
        info.tcpi_state != kEstablished)
      continue;
    sockets.push_back({.socket = socket,
                       .bytes = info.tcpi_bytes_acked + info.tcpi_bytes_received,
                       .packets = info.tcpi_data_segs_out,
                       .sentAgain = info.tcpi_total_retrans,
                       .isWaiting = info.tcpi_unacked > 0});
    if (info.tcpi_min_rtt != ~uint32_t{0}) sockets.back().roundTripMs = info.tcpi_min_rtt / 1e3;
  }
  return sockets;
}

}  // namespace tutti::base
