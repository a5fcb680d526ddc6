#pragma once

// EndpointCore: all of an endpoint, which its rank's thread and the hub's share under one lock. It
// outlives the endpoint until what that has sent has arrived.

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "src/base/file_descriptor.h"
#include "transports/tcp/hub.h"
#include "transports/tcp/peer.h"

namespace tutti::transports::tcp {

class EndpointCore : public std::enable_shared_from_this<EndpointCore> {
 public:
  EndpointCore(TcpHub& hub, int rank, int size, const RingLayout& layout,
               const TcpOptions& options);

  // The rank's.
  const RingLayout& layout() const { return place_.layout; }
  uint64_t memoryBytes();
  std::string ways(int peer);
  EndpointAddress address(int peer);
  void connect(int peer, const EndpointAddress& address);
  /// What a probe of a connected peer needs.
  Dial probe(int peer);
  SendRing& sendRing(int peer, int channel);
  ReceiveRing& receiveRing(int peer, int channel);
  bool progress();
  void flush();
  bool settled();
  void leave();
  void stop();

  // The hub's.
  int events() const { return epoll_.get(); }
  /// Somebody has called progress() since the last time that this was asked.
  bool isAttended();
  void attend();
  std::vector<Dial> patrol(std::chrono::steady_clock::time_point now, bool looksForSilence);
  wire::Expected expected(int peer);
  void adopt(int peer, uint32_t stream, Proven proven);
  void dialFailed(int peer, uint32_t stream, const std::string& why, bool isSilent);
  void dialReached(int peer, uint32_t stream);
  void cannotDial(int peer, const Error& why);

 private:
  void requirePeer(int peer) const;
  TcpPeer& at(int peer);
  TcpPeer& connected(int peer, int channel);
  void check(int peer, const TcpAddressBlob& blob) const;
  bool receive();
  bool tell(bool all);
  void wakeIfUrgent();

  TcpHub& hub_;
  std::mutex mutex_;
  const base::FileDescriptor epoll_;
  std::atomic<uint64_t> calls_{0};
  uint64_t seenCalls_ = 0;  // the hub's
  bool urgent_ = false;
  uint32_t idle_ = 0;           // calls of progress() that found nothing, one after another
  std::vector<TcpPeer*> used_;  // those with which something is exchanged
  TcpPeer::Place place_;
  std::vector<std::unique_ptr<TcpPeer>> peers_;  // by rank; made when its address is asked for
};

}  // namespace tutti::transports::tcp
