#pragma once

// TcpHub: what the endpoints of a process share. It listens, and lets nobody in who has not proved
// the secret of an endpoint's door; it connects for endpoints that want to; and its thread serves
// endpoints whose ranks compute, so that peers need not wait for them.
//
// It calls endpoints without its lock, and they call it with theirs.

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/at_exit.h"
#include "src/base/process.h"
#include "src/base/service_thread.h"
#include "src/wire/handshake_listener.h"
#include "transports/tcp/endpoint.h"
#include "transports/tcp/peer.h"

namespace tutti::transports::tcp {

class EndpointCore;

class TcpHub {
 public:
  explicit TcpHub(const HubOptions& options);
  /// Gives what endpoints have left a moment to arrive.
  ~TcpHub();
  TcpHub(const TcpHub&) = delete;
  TcpHub& operator=(const TcpHub&) = delete;

  bool inForkedChild() const { return guard_.inForkedChild(); }
  /// Where it listens.
  const wire::Address& place() const { return place_; }
  const std::string& device() const { return device_; }

  /// A number that nobody guesses, by which peers ask for `peer` of an endpoint.
  uint64_t openDoor(const std::shared_ptr<EndpointCore>& core, int peer);
  void serve(std::weak_ptr<EndpointCore> core);
  /// Keeps an endpoint until what it has sent has arrived, a moment at most.
  void linger(std::shared_ptr<EndpointCore> core);
  /// The thread looks at once which connections are wanted.
  void wake();

 private:
  struct Door {
    std::weak_ptr<EndpointCore> core;
    int peer = -1;
  };
  struct Dialing {
    std::weak_ptr<EndpointCore> core;
    Dial dial;
    std::optional<wire::HandshakeConnection> connection;
    std::string why = {};  // it failed
    bool reached = false;  // the other kernel
  };
  struct Lingering {
    std::shared_ptr<EndpointCore> core;
    std::chrono::steady_clock::time_point until;
  };
  void run();
  void step();
  bool over();
  void stop();
  wire::Expected expect(const wire::Claim& claim);
  std::optional<Door> find(uint64_t door);
  std::vector<std::shared_ptr<EndpointCore>> cores();
  void admit();
  void patrol(const std::vector<std::shared_ptr<EndpointCore>>& all);
  void startDial(const std::shared_ptr<EndpointCore>& core, Dial dial);
  void advanceDials(const wire::PollSet& set);
  void sweepLingering();

  const base::ProcessGuard guard_;
  const std::string device_;
  wire::Address place_;
  base::FileDescriptor wake_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, Door> doors_;         // under mutex_
  std::vector<std::weak_ptr<EndpointCore>> served_;  // under mutex_
  std::vector<Lingering> lingering_;                 // under mutex_
  std::atomic<bool> stopping_{false}, urgent_{false};
  // The thread's own.
  std::optional<wire::HandshakeListener> listener_;
  std::list<Dialing> dialing_;
  std::chrono::steady_clock::time_point nextPatrol_{}, nextLook_{}, end_{};
  base::ServiceThread thread_;
  std::optional<base::AtExit> atExit_;
};

}  // namespace tutti::transports::tcp
