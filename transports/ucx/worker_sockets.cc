#include "transports/ucx/worker_sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

namespace tutti::transports::ucx {
namespace {

constexpr uint32_t kStillMs = 500;

/// None of what is no epoll.
std::vector<int> membersOf(int epoll) {
  std::vector<int> members;
  std::ifstream info("/proc/thread-self/fdinfo/" + std::to_string(epoll));
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("tfd:")) members.push_back(std::atoi(line.c_str() + 4));
  return members;
}

/// Nothing of what is no TCP socket.
std::optional<tcp_info> infoOf(int descriptor) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return std::nullopt;
  return info;
}

}  // namespace

// An epoll cannot be in itself, however deep.
std::vector<int> tcpSocketsOf(int epoll) {
  std::vector<int> found;
  for (const int member : membersOf(epoll)) {
    if (infoOf(member)) {
      found.push_back(member);
    } else {
      const auto inside = tcpSocketsOf(member);
      found.insert(found.end(), inside.begin(), inside.end());
    }
  }
  return found;
}

bool isFull(int socket) {
  const auto info = infoOf(socket);
  pollfd room{socket, POLLOUT, 0};
  return info && (info->tcpi_state == TCP_ESTABLISHED || info->tcpi_state == TCP_CLOSE_WAIT) &&
         ::poll(&room, 1, 0) == 0;
}

bool isStuck(int socket) {
  const auto info = infoOf(socket);
  return info && isFull(socket) &&
         std::max(info->tcpi_last_data_sent, info->tcpi_last_ack_recv) >= kStillMs;
}

}  // namespace tutti::transports::ucx
