// A nonblocking socket through the handshake and, with the rendezvous, the records behind it.

#include "src/bootstrap/wire/setup_connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>

#include "src/bootstrap/rendezvous.h"

namespace tutti::bootstrap {
namespace {

using Side = SetupConnection::Side;
constexpr wire::HandshakePurpose kPurpose = wire::HandshakePurpose::Rendezvous;

/// Two ends of one connection, in turn.
class SetupConnections : public testing::Test {
 protected:
  SetupConnections() {
    int ends[2];
    TUTTI_SYSCALL(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends));
    const wire::Credentials credentials = randomRendezvous().credentials;
    const wire::Claim claim{
        .version = wire::kProtocolVersion, .job = credentials.job, .rank = 1, .size = 2};
    client_.emplace(
        wire::HandshakeConnection(base::FileDescriptor(ends[0]),
                                  wire::Handshake::connecting(credentials, kPurpose, claim, -1)),
        Side::Connecting);
    server_.emplace(
        wire::HandshakeConnection(base::FileDescriptor(ends[1]),
                                  wire::Handshake::accepting(credentials, kPurpose, -1)),
        Side::Accepting);
  }
  static void advance(SetupConnection& connection) {
    wire::PollSet set;
    connection.watch(set);
    set.wait(100);
    connection.advance(set);
  }
  void shakeHands() {
    for (int turns = 0; turns < 10 && !(client_->authenticated() && server_->authenticated());
         ++turns) {
      advance(*client_);
      advance(*server_);
    }
    ASSERT_TRUE(client_->authenticated() && server_->authenticated());
  }

  std::optional<SetupConnection> client_, server_;
};

TEST_F(SetupConnections, SayMessagesAfterTheHandshake) {
  EXPECT_FALSE(client_->authenticated());
  EXPECT_FALSE(client_->receive());
  shakeHands();
  EXPECT_EQ(server_->handshake().claim().rank, 1);
  client_->send(SetupProgress{"one"});
  client_->send(Connected{});
  advance(*server_);
  auto first = server_->receive(), second = server_->receive();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(std::get<SetupProgress>(*first).text, "one");
  EXPECT_TRUE(std::holds_alternative<Connected>(*second));
  EXPECT_FALSE(server_->receive());
  server_->send(Complete{});
  advance(*client_);
  first = client_->receive();
  ASSERT_TRUE(first);
  EXPECT_TRUE(std::holds_alternative<Complete>(*first));
}

TEST_F(SetupConnections, ThatEndStillGiveWhatWasSaid) {
  shakeHands();
  client_->send(Failure{ErrorCode::Timeout, "too late"});
  client_.reset();
  advance(*server_);
  advance(*server_);
  EXPECT_TRUE(server_->ended());
  const auto message = server_->receive();
  ASSERT_TRUE(message);
  EXPECT_EQ(std::get<Failure>(*message).text, "too late");
}

TEST_F(SetupConnections, WithStrangersAreRefused) {
  const std::string request = "GET / HTTP/1.1\r\n" + std::string(100, 'x');
  ASSERT_EQ(::send(client_->fd(), request.data(), request.size(), 0),
            static_cast<ssize_t>(request.size()));
  try {
    for (int turns = 0; turns < 10; ++turns) advance(*server_);
    FAIL() << "a stranger was not noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Refused);
    EXPECT_STREQ(error.what(), "the connecting side does not speak Tutti's protocol");
  }
}

}  // namespace
}  // namespace tutti::bootstrap
