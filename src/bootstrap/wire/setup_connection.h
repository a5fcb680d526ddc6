#pragma once

// SetupConnection: one nonblocking socket while a job is set up. First the handshake, of which it
// never reads a byte more than it must, so that a finished mesh connection can be handed on; then,
// to and from the rendezvous, records. PollSet: poll() over such sockets.

#include <poll.h>

#include <chrono>
#include <optional>
#include <unordered_map>

#include "src/base/file_descriptor.h"
#include "src/bootstrap/wire/handshake.h"
#include "src/bootstrap/wire/record.h"
#include "src/bootstrap/wire/setup_message.h"

namespace tutti::bootstrap {

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

class SetupConnection {
 public:
  enum class Side { Connecting, Accepting };
  SetupConnection(base::FileDescriptor socket, Handshake handshake, Side side);
  SetupConnection(SetupConnection&&) = default;
  SetupConnection& operator=(SetupConnection&&) = default;
  ~SetupConnection();

  int fd() const { return socket_.get(); }
  void watch(PollSet& set) const;
  /// Reads and writes what is possible without waiting. Throws Refused when the other end breaks
  /// the protocol; a connection that broke, or was never made, shows in ended().
  void advance(const PollSet& set);
  /// The other end will say no more. What it said before is still to be received.
  bool ended() const { return ended_; }
  /// Of an end that was an error: its errno. Else 0.
  int error() const { return error_; }
  bool authenticated() const { return handshake_.done(); }
  const Handshake& handshake() const { return handshake_; }
  bool flushed() const { return out_.empty(); }
  std::chrono::steady_clock::time_point since() const { return since_; }

  // After the handshake, on connections with the rendezvous.
  void send(const SetupMessage& message);
  std::optional<SetupMessage> receive();

  /// Gives the socket away, once authenticated() and flushed().
  base::FileDescriptor release();

 private:
  void read();
  void readHandshake();
  void readRecords();
  size_t readSome(std::span<std::byte> into);
  void flush();
  void openRecords();

  base::FileDescriptor socket_;
  Handshake handshake_;
  Side side_;
  bool ended_ = false;
  int error_ = 0;
  base::Bytes in_, out_;  // in_: of the handshake's next message
  std::optional<RecordWriter> writer_;
  std::optional<RecordReader> reader_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace tutti::bootstrap
