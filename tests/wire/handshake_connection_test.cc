// A nonblocking socket until the handshake on it is done.

#include "src/wire/handshake_connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>

namespace tutti::wire {
namespace {

void advance(HandshakeConnection& connection) {
  PollSet set;
  connection.watch(set);
  set.wait(100);
  connection.advance(set);
}

// What comes behind the handshake is for whoever the socket is given to.
TEST(HandshakeConnections, ReadNoByteTooMany) {
  int ends[2] = {-1, -1};
  TUTTI_SYSCALL(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends));
  const Credentials credentials{.secret = randomBytes<32>(), .job = randomBytes<16>()};
  const Claim claim{.version = kProtocolVersion, .job = credentials.job, .rank = 1, .size = 2};
  HandshakeConnection client(base::FileDescriptor{ends[0]},
                             Handshake::connecting(credentials, HandshakePurpose::Mesh, claim, -1));
  HandshakeConnection server(base::FileDescriptor{ends[1]},
                             Handshake::accepting(credentials, HandshakePurpose::Mesh, -1));
  advance(client);
  advance(server);
  advance(client);
  ASSERT_TRUE(client.authenticated() && client.flushed());
  const std::string text = "first frame";
  ASSERT_EQ(::send(client.fd(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  advance(server);
  ASSERT_TRUE(server.authenticated());
  const base::FileDescriptor socket = server.release();
  char found[64];
  const ssize_t count = ::recv(socket.get(), found, sizeof found, 0);
  ASSERT_EQ(count, static_cast<ssize_t>(text.size()));
  EXPECT_EQ(std::string(found, text.size()), text);
}

TEST(PollSet, KnowsNothingOfDescriptorsThatWereNotAdded) {
  PollSet set;
  set.wait(0);
  EXPECT_EQ(set.happened(0), 0);
}

}  // namespace
}  // namespace tutti::wire
