// The TCP sockets of this process as the kernel counts them: connected ones and those that are
// connecting, and where they lead.

#include "src/base/tcp_sockets.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <optional>

#include "src/base/check.h"
#include "src/base/file_descriptor.h"

namespace tutti::base {
namespace {

/// A listener of 127.0.0.1, and sockets that connect to it.
class Sockets : public testing::Test {
 protected:
  Sockets() {
    auto* const address = reinterpret_cast<sockaddr*>(&address_);
    socklen_t length = sizeof address_;
    TUTTI_SYSCALL(::bind(listener_.get(), address, length));
    TUTTI_SYSCALL(::listen(listener_.get(), 0));
    TUTTI_SYSCALL(::getsockname(listener_.get(), address, &length));
  }
  static FileDescriptor make(int flags = 0) {
    return FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  }
  int connect(const FileDescriptor& socket) const {
    return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address_), sizeof address_);
  }
  static std::optional<TcpSocket> find(const FileDescriptor& socket) {
    const auto all = tcpSockets();
    const auto found = std::ranges::find(all, socket.get(), &TcpSocket::socket);
    return found == all.end() ? std::nullopt : std::optional(*found);
  }

  sockaddr_in address_{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  const FileDescriptor listener_ = make();
};

TEST_F(Sockets, ThatAreConnectedAreCounted) {
  const FileDescriptor client = make();
  TUTTI_SYSCALL(connect(client));
  const FileDescriptor server(TUTTI_SYSCALL(::accept(listener_.get(), nullptr, nullptr)));
  std::array<char, 1000> data{};
  ASSERT_EQ(::send(client.get(), data.data(), data.size(), 0), 1000);
  ASSERT_EQ(::recv(server.get(), data.data(), data.size(), MSG_WAITALL), 1000);
  const auto sent = find(client), received = find(server);
  ASSERT_TRUE(sent && received);
  EXPECT_FALSE(sent->isConnecting || received->isConnecting);
  EXPECT_EQ(sent->packets, 1U);
  EXPECT_EQ(sent->sentAgain, 0U);
  EXPECT_EQ(received->packets, 0U);
  EXPECT_EQ(received->bytes, 1000U);
  ASSERT_TRUE(sent->roundTripMs);
  EXPECT_GT(*sent->roundTripMs, 0);
  EXPECT_EQ(peersOf(std::array{*sent, *received}),
            (std::vector<uint32_t>{htonl(INADDR_LOOPBACK), htonl(INADDR_LOOPBACK)}));
}

// A listener whose queue is full takes no more, and leaves the others without an answer.
TEST_F(Sockets, ThatAreConnectingLeadSomewhereToo) {
  std::vector<FileDescriptor> clients;
  std::optional<TcpSocket> waiting;
  for (int tries = 0; tries < 16 && !waiting; ++tries) {
    clients.push_back(make(SOCK_NONBLOCK));
    EXPECT_TRUE(connect(clients.back()) == 0 || errno == EINPROGRESS) << errno;
    if (const auto found = find(clients.back()); found && found->isConnecting) waiting = found;
  }
  ASSERT_TRUE(waiting);
  EXPECT_EQ(peersOf(std::array{*waiting}), std::vector<uint32_t>{htonl(INADDR_LOOPBACK)});
}

TEST_F(Sockets, OfOtherKindsAreNone) {
  EXPECT_FALSE(find(listener_));
  EXPECT_FALSE(find(make())) << "not connected";
  EXPECT_FALSE(find(FileDescriptor(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0))));
  EXPECT_EQ(peersOf({}), std::vector<uint32_t>{});
  EXPECT_EQ(peersOf(std::array{TcpSocket{}}), std::vector<uint32_t>{0});
}

// Nobody listens, and the kernel chooses the very port for the socket's own end.
TEST(SocketsOfTheirOwn, AreKnown) {
  for (const bool itself : {true, false}) {
    const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in at{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const auto& address = reinterpret_cast<const sockaddr&>(at);
    TUTTI_SYSCALL(::bind(socket.get(), &address, sizeof at));
    socklen_t length = sizeof at;
    TUTTI_SYSCALL(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &length));
    FileDescriptor listener;
    if (!itself) {
      at.sin_port = 0;
      listener = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      TUTTI_SYSCALL(::bind(listener.get(), &address, sizeof at));
      TUTTI_SYSCALL(::listen(listener.get(), 1));
      TUTTI_SYSCALL(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &length));
    }
    TUTTI_SYSCALL(::connect(socket.get(), &address, sizeof at));
    EXPECT_EQ(isConnectedToItself(socket.get(), address), itself);
  }
}

}  // namespace
}  // namespace tutti::base
