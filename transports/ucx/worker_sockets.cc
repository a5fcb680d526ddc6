#include "transports/ucx/worker_sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
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

bool isTcp(int descriptor) {
  int protocol = 0;
  socklen_t bytes = sizeof protocol;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_PROTOCOL, &protocol, &bytes) == 0 &&
         protocol == IPPROTO_TCP;
}

tcp_info infoOf(int socket) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes);
  return info;
}

bool isConnected(const tcp_info& info) {
  return info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_CLOSE_WAIT;
}

}  // namespace

// An epoll cannot be in itself, however deep.
std::vector<int> tcpSocketsOf(int epoll) {
  std::vector<int> found;
  for (const int member : membersOf(epoll)) {
    if (isTcp(member)) {
      found.push_back(member);
    } else {
      const auto inside = tcpSocketsOf(member);
      found.insert(found.end(), inside.begin(), inside.end());
    }
  }
  return found;
}

bool isFull(int socket) {
  pollfd room{socket, POLLOUT, 0};
  return isConnected(infoOf(socket)) && ::poll(&room, 1, 0) == 0;
}

bool isStuck(int socket) {
  const tcp_info info = infoOf(socket);
  return isFull(socket) && std::max(info.tcpi_last_data_sent, info.tcpi_last_ack_recv) >= kStillMs;
}

}  // namespace tutti::transports::ucx
