#pragma once

// SetupConnection: one nonblocking socket between a rank and the rendezvous while a job is set up.
// First the handshake, then frames, each with one message.

#include <optional>

#include "src/bootstrap/wire/frame.h"
#include "src/bootstrap/wire/setup_message.h"
#include "src/wire/handshake_connection.h"

namespace tutti::bootstrap {

class SetupConnection {
 public:
  enum class Side { Connecting, Accepting };
  SetupConnection(wire::HandshakeConnection connection, Side side);

  int fd() const { return connection_.fd(); }
  void watch(wire::PollSet& set) const { connection_.watch(set); }
  /// Reads and writes what is possible without waiting. Throws Refused when the other end breaks
  /// the protocol; a connection that broke, or was never made, shows in ended().
  void advance(const wire::PollSet& set);
  /// The other end will say no more. What it said before is still to be received.
  bool ended() const { return connection_.ended(); }
  /// Of an end that was an error: its errno. Else 0.
  int error() const { return connection_.error(); }
  bool authenticated() const { return connection_.authenticated(); }
  const wire::Handshake& handshake() const { return connection_.handshake(); }
  bool flushed() const { return connection_.flushed(); }

  // After the handshake.
  void send(const SetupMessage& message);
  std::optional<SetupMessage> receive();

 private:
  void openFrames();
  void readFrames();

  wire::HandshakeConnection connection_;
  Side side_;
  std::optional<SealedFrameWriter> writer_;
  std::optional<SealedFrameReader> reader_;
};

}  // namespace tutti::bootstrap
