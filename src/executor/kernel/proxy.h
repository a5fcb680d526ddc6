#pragma once

// The thread by which a kernel's messages leave the host, and come to it. It follows words in
// pinned memory alone, so launches, and graphs that replay them, need nothing from the host. It
// never waits for one peer while another could move, and naps when nothing does.

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <tutti/error.h>
#include "src/base/at_exit.h"
#include "src/base/service_thread.h"
#include "src/executor/kernel/arguments.h"
#include "src/executor/kernel/remote_link.h"
#include "transports/connection.h"
#include "transports/p2p/endpoint.h"

namespace tutti::executor::kernel {

/// What the transport to other hosts must have: a channel more than p2p, by which ranks tell that
/// they have given up.
transports::RingLayout remoteLayout(const transports::p2p::P2pLayout& layout);

struct RemoteFailure {
  Error error;
  int peer;  ///< -1: none of them
};

class Proxy {
 public:
  /// Serves those peers that `endpoint`, which outlives it, has through the host. `remote` knows
  /// their addresses and was told of direct messages (goDirect()), and nobody else uses it.
  /// `stopWord` is pinned: 0 until the kernel must end. Throws InvalidArgument where `remote` has
  /// another layout than remoteLayout(), and what its rings throw.
  Proxy(const transports::p2p::P2pEndpoint& endpoint, std::unique_ptr<transports::Endpoint> remote,
        uint32_t* stopWord);
  ~Proxy() { finish(); }
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  /// No launch is under way, nor comes any more. Waits until what was sent has left, as long as
  /// something moves; when a launch has failed a moment only, for the peers to be told.
  void finish();
  /// Why no more gets through, when that is so: PeerLost, or Refused. From any thread.
  std::optional<RemoteFailure> failure() const;

 private:
  struct RemotePeer {
    int rank;
    std::vector<RemoteSender> senders;      // by channel
    std::vector<RemoteReceiver> receivers;  // likewise
    transports::SendRing* sendNotice;
    transports::ReceiveRing* receiveNotice;
    uint32_t* poison;  // not 0: the kernel has given up
    bool isTold = false;
    bool isRefused = false;  ///< only that either side has given up goes through any more
    bool isLost = false;
  };

  void abandon();
  RemotePeer makePeer(const transports::p2p::P2pEndpoint& endpoint, int rank) const;
  void serve();
  void settle();
  bool hasStopped() const;
  bool isSettled() const;
  void warnOfWhatIsLeft() const;
  bool move();
  bool move(RemotePeer& peer);
  bool moveNotices(RemotePeer& peer);
  bool progress();
  void fail(const Error& error, StopReason reason, int peer);

  const std::unique_ptr<transports::Endpoint> remote_;
  const int rank_, device_;
  const Arrivals arrivals_;
  uint32_t* const stopWord_;
  std::vector<RemotePeer> peers_;
  std::atomic<bool> stopping_{false}, abandoned_{false};
  mutable std::mutex mutex_;  // guards what follows
  std::optional<RemoteFailure> failure_;
  base::ServiceThread thread_;
  const base::AtExit atExit_;  // the thread uses pinned memory and the transport
};

}  // namespace tutti::executor::kernel
