#pragma once

// A rank 1 that a test plays by hand: it has the secret of its connection with rank 0, an endpoint,
// and sends what it likes.

#include <cstring>
#include <span>

#include "src/wire/handshake_connection.h"
#include "tests/transports/tcp/endpoints.h"
#include "transports/tcp/address.h"
#include "transports/tcp/frame.h"
#include "transports/tcp/peer.h"

namespace tutti::tests {

class RawPeer {
 public:
  /// Rank 0 is told that it listens at `place`, where by default nobody does: it waits to be
  /// connected to.
  RawPeer(Endpoint& rank0, const transports::RingLayout& layout, uint32_t streams = 1,
          const wire::Address& place = wire::resolve("127.0.0.1", 9))
      : theirs_(transports::tcp::TcpAddressBlob::read(rank0.address(1).blob)) {
    const transports::tcp::TcpAddressBlob own{.from = 1,
                                              .to = 0,
                                              .size = theirs_.size,
                                              .layout = layout,
                                              .door = 1,
                                              .half = half_,
                                              .keyCheck = transports::tcp::keyCheckOf(half_, ""),
                                              .streams = streams,
                                              .place = place};
    rank0.connect(1, {own.write(), {}});
    secret_ = transports::tcp::secretOf(theirs_.half, half_, "");
  }

  const wire::Address& place() const { return theirs_.place; }
  wire::Claim claim(uint32_t stream = 0, uint32_t generation = 1) const {
    return {.version = wire::kProtocolVersion,
            .job = transports::tcp::jobOf(theirs_.door, stream, generation),
            .rank = 1,
            .size = theirs_.size};
  }
  /// Proves itself by `secret`. Empty where it was not let in.
  base::FileDescriptor connect(const wire::Key& secret, const wire::Claim& claim) const {
    wire::Connecting made = wire::startConnecting(place());
    EXPECT_EQ(made.error, 0);
    wire::HandshakeConnection connection(
        std::move(made.socket),
        wire::Handshake::connecting({.secret = secret}, wire::HandshakePurpose::Data, claim, 0));
    const auto deadline = base::Deadline::after(kPatience);
    try {
      while (!connection.ended() && !deadline.passed()) {
        if (connection.authenticated() && connection.flushed()) return connection.release();
        wire::PollSet set;
        connection.watch(set);
        set.wait(100);
        connection.advance(set);
      }
    } catch (const Error&) {  // what answers does not know this secret
    }
    return {};
  }
  const wire::Key& secret() const { return secret_; }
  /// Lets itself in, and says that it has nothing yet.
  base::FileDescriptor enter(uint32_t stream = 0, uint32_t generation = 1) const {
    base::FileDescriptor socket = connect(secret_, claim(stream, generation));
    EXPECT_TRUE(socket);
    send(socket, {.type = transports::tcp::FrameType::Resume});
    return socket;
  }
  static void send(const base::FileDescriptor& socket, const transports::tcp::TcpFrame& frame,
                   std::span<const std::byte> payload = {}) {
    base::Bytes bytes = base::bytesOf(frame);
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

 private:
  const wire::Key half_ = wire::randomBytes<32>();
  const transports::tcp::TcpAddressBlob theirs_;
  wire::Key secret_{};
};

}  // namespace tutti::tests
