#include "src/base/tcp_sockets.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <system_error>

namespace tutti::base {
namespace {

// The kernel's numbers; glibc has the names beside a tcp_info of its own.
constexpr uint8_t kEstablished = 1, kConnecting = 2;

struct Place {
  uint32_t address = 0;  // of IPv4, as the network orders its bytes
  uint16_t port = 0;     // as numbers are
  auto operator<=>(const Place&) const = default;
};

/// By `call`, getsockname or getpeername.
Place placeOf(int socket, int (&call)(int, sockaddr*, socklen_t*)) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  if (call(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      address.sin_family != AF_INET)
    return {};
  return {address.sin_addr.s_addr, ntohs(address.sin_port)};
}

/// Where connections that are being made lead, by where they begin: no call tells it. Of all
/// processes of this network.
std::map<Place, uint32_t> connecting() {
  std::map<Place, uint32_t> peers;
  std::ifstream table("/proc/thread-self/net/tcp");
  for (std::string line; std::getline(table, line);) {
    Place own;
    unsigned peer = 0, state = 0;
    if (std::sscanf(line.c_str(), " %*[^:]: %8x:%4hx %8x:%*x %2x", &own.address, &own.port, &peer,
                    &state) == 4 &&
        state == kConnecting)
      peers[own] = peer;
  }
  return peers;
}

}  // namespace

std::vector<TcpSocket> tcpSockets() {
  std::vector<TcpSocket> sockets;
  bool isAnyConnecting = false;
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
        (info.tcpi_state != kEstablished && info.tcpi_state != kConnecting))
      continue;
    isAnyConnecting |= info.tcpi_state == kConnecting;
    sockets.push_back({.socket = socket,
                       .peer = placeOf(socket, ::getpeername).address,
                       .bytes = info.tcpi_bytes_acked + info.tcpi_bytes_received,
                       .packets = info.tcpi_data_segs_out,
                       .sentAgain = info.tcpi_total_retrans,
                       .isWaiting = info.tcpi_unacked > 0});
    if (info.tcpi_min_rtt != ~uint32_t{0}) sockets.back().roundTripMs = info.tcpi_min_rtt / 1e3;
  }
  if (!isAnyConnecting) return sockets;
  const std::map<Place, uint32_t> peers = connecting();
  for (TcpSocket& each : sockets)
    if (const auto at = peers.find(placeOf(each.socket, ::getsockname));
        each.peer == 0 && at != peers.end())
      each.peer = at->second;
  return sockets;
}

}  // namespace tutti::base
