#pragma once

// HandshakeConnection: one nonblocking socket until the handshake on it is done. It never reads a
// byte more than it must, so that the connection can be handed on. PollSet: poll() over such
// sockets.

#include <poll.h>

#include <chrono>
#include <unordered_map>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/wire/handshake.h"

namespace tutti::wire {

class PollSet {
 public:
  void clear();
  void add(int fd, short events);
  /// Returns after something happened or `timeoutMs`.
  void wait(int timeoutMs);
  /// What happened to `fd`; 0 when it was not added.
  short happened(int fd) const;

 private:
  std::vector<pollfd> polled_;
  std::unordered_map<int, size_t> index_;
};

class HandshakeConnection {
 public:
  HandshakeConnection(base::FileDescriptor socket, Handshake handshake);
  HandshakeConnection(HandshakeConnection&&) = default;
  HandshakeConnection& operator=(HandshakeConnection&&) = default;
  ~HandshakeConnection();

  int fd() const { return socket_.get(); }
  void watch(PollSet& set) const;
  /// Reads and writes what is possible without waiting, of the handshake. Throws Refused when the
  /// other end breaks the protocol; a connection that broke, or was never made, shows in ended().
  void advance(const PollSet& set);
  /// The other end will say no more. What it said before is still to be received.
  bool ended() const { return ended_; }
  /// Of an end that was an error: its errno. Else 0.
  int error() const { return error_; }
  bool authenticated() const { return handshake_.done(); }
  const Handshake& handshake() const { return handshake_; }
  bool flushed() const { return out_.empty(); }
  std::chrono::steady_clock::time_point since() const { return since_; }

  // After the handshake, for what follows it.
  /// Queues `bytes` and sends what the socket takes.
  void send(std::span<const std::byte> bytes);
  /// What has arrived; 0 where nothing has, or the connection has ended.
  size_t receive(std::span<std::byte> into);

  /// Gives the socket away, once authenticated() and flushed().
  base::FileDescriptor release();

 private:
  void read();
  void flush();

  base::FileDescriptor socket_;
  Handshake handshake_;
  bool ended_ = false;
  int error_ = 0;
  base::Bytes in_, out_;  // in_: of the handshake's next message
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace tutti::wire
