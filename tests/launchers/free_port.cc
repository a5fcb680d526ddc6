#include "tests/launchers/free_port.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "src/base/check.h"
#include "src/base/file_descriptor.h"

namespace tutti::launchers {
namespace {

/// Binds `port`, 0 for any, and returns it; 0 when it is taken.
int bindPort(const base::FileDescriptor& socket, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  socklen_t length = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket.get(), any, length) != 0) return 0;
  TUTTI_SYSCALL(::getsockname(socket.get(), any, &length));
  return ntohs(address.sin_port);
}

base::FileDescriptor newSocket() {
  return base::FileDescriptor(TUTTI_SYSCALL(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
}

}  // namespace

int freePort() {
  while (true) {
    const base::FileDescriptor one = newSocket(), next = newSocket();
    const int port = bindPort(one, 0);
    TUTTI_REQUIRE(port > 0, "no port of the loopback is free");
    if (port < 65535 && bindPort(next, port + 1) > 0) return port;
  }
}

}  // namespace tutti::launchers
