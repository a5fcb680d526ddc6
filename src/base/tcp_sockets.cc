#include "src/base/tcp_sockets.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <system_error>

#include "src/base/check.h"

namespace tutti::base {
namespace {

// The kernel's numbers; glibc has the names beside a tcp_info of its own.
constexpr uint8_t kEstablished = 1, kConnecting = 2;

/// Where connections that are being made lead, of all processes of this network, by the sockets'
/// inodes.
std::map<ino_t, uint32_t> connecting() {
  std::map<ino_t, uint32_t> peers;
  std::ifstream table("/proc/thread-self/net/tcp");
  for (std::string line; std::getline(table, line);) {
    unsigned peer = 0, state = 0;
    unsigned long inode = 0;
    if (std::sscanf(line.c_str(), " %*d: %*x:%*x %8x:%*x %2x %*x:%*x %*x:%*x %*x %*u %*u %lu",
                    &peer, &state, &inode) == 3 &&
        state == kConnecting)
      peers[inode] = peer;
  }
  return peers;
}

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
        (info.tcpi_state != kEstablished && info.tcpi_state != kConnecting))
      continue;
    sockets.push_back({.socket = socket,
                       .isConnecting = info.tcpi_state == kConnecting,
                       .bytes = info.tcpi_bytes_acked + info.tcpi_bytes_received,
                       .packets = info.tcpi_data_segs_out,
                       .sentAgain = info.tcpi_total_retrans,
                       .isWaiting = info.tcpi_unacked > 0});
    if (info.tcpi_min_rtt != ~uint32_t{0}) sockets.back().roundTripMs = info.tcpi_min_rtt / 1e3;
  }
  return sockets;
}

std::vector<uint32_t> peersOf(std::span<const TcpSocket> sockets) {
  std::map<ino_t, uint32_t> table;
  if (std::ranges::any_of(sockets, &TcpSocket::isConnecting)) table = connecting();
  std::vector<uint32_t> peers;
  for (const TcpSocket& each : sockets) {
    uint32_t& peer = peers.emplace_back(0);
    sockaddr_in address{};
    socklen_t length = sizeof address;
    struct stat file {};
    if (::getpeername(each.socket, reinterpret_cast<sockaddr*>(&address), &length) == 0) {
      if (address.sin_family == AF_INET) peer = address.sin_addr.s_addr;
    } else if (each.isConnecting && ::fstat(each.socket, &file) == 0 &&
               table.contains(file.st_ino)) {
      peer = table.at(file.st_ino);
    }
  }
  return peers;
}

bool isConnectedToItself(int socket, const sockaddr& to) {
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &length) != 0) return false;
  if (own.ss_family != to.sa_family) return false;
  if (to.sa_family == AF_INET) {
    const auto& left = reinterpret_cast<const sockaddr_in&>(own);
    const auto& right = reinterpret_cast<const sockaddr_in&>(to);
    return left.sin_port == right.sin_port && left.sin_addr.s_addr == right.sin_addr.s_addr;
  }
  if (to.sa_family != AF_INET6) return false;
  const auto& left = reinterpret_cast<const sockaddr_in6&>(own);
  const auto& right = reinterpret_cast<const sockaddr_in6&>(to);
  return left.sin6_port == right.sin6_port &&
         std::memcmp(&left.sin6_addr, &right.sin6_addr, sizeof left.sin6_addr) == 0;
}

void closeByReset(FileDescriptor socket) {
  const linger now{.l_onoff = 1, .l_linger = 0};
  TUTTI_SYSCALL(::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now));
}

}  // namespace tutti::base
