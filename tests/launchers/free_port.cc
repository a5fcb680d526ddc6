#include "tests/launchers/free_port.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <random>

#include "src/base/check.h"
#include "src/base/file_descriptor.h"

namespace tutti::launchers {
namespace {

// Below the ports that Linux gives to whoever asks for any.
constexpr int kFirst = 20000, kLast = 32000;
constexpr int kTries = 1000;

bool canBind(int port) {
  const base::FileDescriptor socket(
      TUTTI_SYSCALL(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

int freePort() {
  static std::mt19937 random(std::random_device{}());
  for (int i = 0; i < kTries; ++i) {
    const int port = std::uniform_int_distribution(kFirst, kLast)(random);
    if (canBind(port) && canBind(port + 1)) return port;
  }
  base::fail(ErrorCode::System, "no port of the loopback is free from ", kFirst, " to ", kLast);
}

}  // namespace tutti::launchers
