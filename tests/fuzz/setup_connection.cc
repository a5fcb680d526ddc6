// SetupConnection: what comes over a socket while a job is set up, before the handshake and behind
// it.
//
// First byte: bit 0 the connection is the connecting side, else the accepting one; bit 1 the
// handshake is done by somebody with the secret; bit 2 the rest is sealed as that one's message,
// else it comes as it is.

#include "src/bootstrap/wire/setup_connection.h"

#include <sys/socket.h>

#include "tests/fuzz/fuzz.h"

namespace tutti::fuzz {
namespace {

using bootstrap::SetupConnection;
using wire::Handshake;

wire::Credentials someJob() {
  return {.secret = wire::randomBytes<32>(), .job = wire::randomBytes<16>()};
}

/// One side's handshake of a job.
Handshake sideOf(const wire::Credentials& job, bool connecting) {
  const wire::Claim claim{.version = wire::kProtocolVersion, .job = job.job, .rank = 1, .size = 2};
  return connecting ? Handshake::connecting(job, wire::HandshakePurpose::Rendezvous, claim, -1)
                    : Handshake::accepting(job, wire::HandshakePurpose::Rendezvous, -1);
}

/// A connection, and the end that the input writes to.
class Pair {
 public:
  Pair(const wire::Credentials& job, bool connecting) {
    int sockets[2];
    expect(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets) == 0,
           "there are sockets");
    other_ = base::FileDescriptor(sockets[1]);
    connection_.emplace(
        wire::HandshakeConnection(base::FileDescriptor(sockets[0]), sideOf(job, connecting)),
        connecting ? SetupConnection::Side::Connecting : SetupConnection::Side::Accepting);
  }
  SetupConnection& connection() { return *connection_; }

  /// The connection does what it can, and says what it has got.
  void advance() {
    for (int turn = 0; turn < 4; ++turn) {
      wire::PollSet set;
      connection_->watch(set);
      set.wait(0);
      connection_->advance(set);
    }
    while (connection_->authenticated() && connection_->receive()) {
    }
  }
  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty() && !connection_->ended()) {
      const ssize_t count =
          ::send(other_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count > 0) bytes = bytes.subspan(static_cast<size_t>(count));
      advance();
    }
  }
  base::Bytes read(size_t count) {
    base::Bytes bytes(count);
    const ssize_t got = ::recv(other_.get(), bytes.data(), count, MSG_DONTWAIT);
    bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return bytes;
  }
  void close() {
    other_ = base::FileDescriptor();
    advance();
  }

 private:
  base::FileDescriptor other_;
  std::optional<SetupConnection> connection_;
};

/// A frame for the side that connects, or the other, from its peer.
base::Bytes sealed(const wire::Key& session, bool connecting, base::Bytes payload) {
  bootstrap::SealedFrameWriter writer(
      wire::directionKey(session, connecting ? "from the rendezvous" : "to the rendezvous"));
  base::Bytes frame = writer.seal({}, payload);
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

void run(Input input) {
  const uint8_t choice = input.byte();
  const bool connecting = (choice & 1) != 0, proven = (choice & 2) != 0;
  const wire::Credentials job = someJob();
  Pair pair(job, connecting);
  base::Bytes bytes = input.bytes();
  takes({ErrorCode::Refused}, [&] {
    if (proven) {
      Handshake peer = sideOf(job, !connecting);
      pair.write(peer.start());
      while (!peer.done()) {
        pair.advance();
        pair.write(peer.receive(pair.read(peer.wantedBytes())));
      }
      if ((choice & 4) != 0) bytes = sealed(peer.sessionKey(), connecting, std::move(bytes));
    }
    pair.write(bytes);
    pair.close();
    expect(pair.connection().ended(), "a connection sees that the other end has closed");
  });
  expect(pair.connection().authenticated() == proven, "no stranger is believed");
}

}  // namespace
}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::run({data, size});
  return 0;
}
