#pragma once

// PeerLink: one peer's socket, what waits to be sent on it, what has arrived of it, and a pidfd of
// its process. The monitor's thread owns it, but for queue(), which any thread calls.

#include <deque>
#include <functional>
#include <mutex>

#include "src/bootstrap/socket_control_plane.h"
#include "src/bootstrap/wire/frame.h"

struct msghdr;

namespace tutti::bootstrap {

class PeerLink {
 public:
  /// Takes the other end's pidfd too, where the kernel gives one.
  explicit PeerLink(PeerSocket socket);

  int socket() const { return socket_.get(); }
  int process() const { return process_.get(); }  ///< -1: not watched. Outlasts close().

  /// Any thread. False when more than kMaxQueuedBytes would wait.
  bool queue(FrameKind kind, ControlMessage message);
  bool sendsWaiting();

  enum class Flow { Open, Ended };
  /// Why a flow has ended, as a clause.
  std::string reason() const;
  /// Sends what the socket takes.
  Flow flush();
  /// Reads at most about `limitBytes` and hands over the frames that became whole. Throws Refused
  /// when the peer breaks the protocol, System when its descriptors could not be received.
  Flow read(size_t limitBytes, const std::function<void(Frame)>& take);
  bool processEnded() const;
  /// Any thread. False also where nobody watches it.
  bool processRuns() const;
  void close();

 private:
  struct Outgoing {
    FrameHeader header;
    base::Bytes sealed;  // the header; empty until the frame is the first that waits
    ControlMessage message;
    size_t counted = 0;  // in queuedBytes_
    size_t sent = 0;     // of header and payload together
    size_t bytes() const { return sealed.size() + message.payload.size(); }
  };
  ssize_t sendSome(Outgoing& out);
  Flow endedBy(int error);
  void takeDescriptors(msghdr& message);

  base::FileDescriptor socket_;
  base::FileDescriptor process_;
  SealedFrameReader reader_;
  SealedFrameWriter writer_;
  std::mutex mutex_;
  std::deque<Outgoing> queue_;
  size_t queuedBytes_ = 0;
  bool closed_ = false;
  int error_ = 0;  // errno of the first error of the connection; the kernel tells it once
};

}  // namespace tutti::bootstrap
