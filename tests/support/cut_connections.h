#pragma once

#include <sys/socket.h>

namespace tutti::tests {

/// Breaks all connections by TCP that this process has; returns how many.
inline int cutConnections() {
  int cut = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.ss_family == AF_INET) cut += ::shutdown(fd, SHUT_RDWR) == 0 ? 1 : 0;
  }
  return cut;
}

}  // namespace tutti::tests
