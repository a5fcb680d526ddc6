#pragma once

// One peer as an endpoint sees it: the rings between the two, by channel, and the streams that they
// share. Everything under the endpoint's lock.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tutti/error.h>
#include "src/wire/handshake.h"
#include "transports/tcp/address.h"
#include "transports/tcp/endpoint.h"
#include "transports/tcp/link.h"
#include "transports/tcp/stream.h"

namespace tutti::transports::tcp {

/// A connection that shall be tried.
struct Dial {
  int peer = -1;
  uint32_t stream = 0;
  ConnectionName name;
  wire::Address place;
  wire::Credentials credentials;
  wire::Claim claim;
};

/// What both ends put into a claim's job: whose door, which stream, which try.
wire::JobId jobOf(uint64_t door, uint32_t stream, uint32_t generation);
struct DoorClaim {
  uint64_t door = 0;
  uint32_t stream = 0, generation = 0;
  static DoorClaim of(const wire::JobId& job);
};
/// In the place of a stream's number: whoever asks only wants to know that this is here.
inline constexpr uint32_t kProbeStream = ~uint32_t{0};

class TcpPeer final : public StreamUser {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// What all peers of an endpoint share.
  struct Place {
    int rank = -1, size = 0;
    RingLayout layout;
    TcpOptions options;
    int epoll = -1;
    std::string device;                     ///< this rank's, for messages
    std::vector<TcpPeer*>* used = nullptr;  ///< has room for all
    bool* urgent = nullptr;                 ///< raised where a connection is wanted
  };
  TcpPeer(const Place& place, int peer, uint64_t door);
  TcpPeer(const TcpPeer&) = delete;
  TcpPeer& operator=(const TcpPeer&) = delete;

  uint64_t door() const { return door_; }
  const wire::Key& half() const { return half_; }
  bool addressed() const { return theirs_.has_value(); }
  void setAddress(TcpAddressBlob theirs);  ///< once
  /// For messages, "; rank 0 goes by eth0; rank 1 goes by eth1 at 10.0.0.2:4711".
  std::string ways() const;
  const wire::Address& place() const { return theirs_->place; }
  /// Rings are made, and connections with them, when they are first asked for.
  SendRing& sendRing(int channel);
  ReceiveRing& receiveRing(int channel);

  // Connections.
  /// What whoever asks for `door` has to prove. Throws Refused before the address is known.
  wire::Expected expected() const;
  wire::Claim claim(uint32_t stream, uint32_t generation) const;
  void adopt(uint32_t stream, Proven proven, Time now);
  /// `isSilent`: the other end took the connection, and has not answered.
  void dialFailed(uint32_t stream, const std::string& why, bool isSilent, Time now);
  /// The other kernel has taken the connection, and its process says nothing yet: it may be
  /// stopped.
  void dialReached(uint32_t stream);
  /// This process cannot connect at all: it has no descriptor or port left.
  void cannotDial(const Error& why);
  /// Which connections are to be tried now; and what of them is given up.
  void listDials(std::vector<Dial>& dials, Time now);
  void lookForSilence(Time now);

  // Messages.
  /// Sends what was published, and tells of slots that were given back: those of half a ring at
  /// once, others when the messages that are sent carry them. True when something went.
  bool post();
  /// Tells what the peer may wait for; with `all` everything that it does not know.
  bool tell(bool all);
  /// Sends what is queued.
  bool send();
  const std::vector<std::unique_ptr<TcpStream>>& streams() const { return streams_; }
  bool receive(TcpStream& stream, size_t limitBytes, Time now) override;
  /// Everything published is at the peer, or nobody is there to get it.
  bool settled() const;
  /// Says goodbye, after all that was published.
  void leave();
  /// Nothing more is sent or received.
  void stop();
  /// Throws what has become of the peer; PeerLost once.
  void throwFailure();

  /// Rings that are there.
  size_t rings() const;

 private:
  const std::byte* fill(const Counted& counted, TcpFrame& frame) override;
  void listCredits(std::vector<CreditWord>& credits) override;
  void onCredits(std::span<const CreditWord> credits) override;
  void onReceived(const Counted& counted) override;
  void onLacked(const Counted& counted) const override;
  std::byte* onBegin(const TcpStream& stream, const TcpFrame& frame) override;
  void onComplete(const TcpFrame& frame) override;

  /// Of one stream: when it is tried next, and until when.
  struct Trial {
    bool underWay = false;
    bool reached = false;  // the other kernel by the try that is under way, or the last one
    Time next{};
    std::optional<Time> until;
    std::string why;     // the last try failed
    uint32_t moved = 0;  // the stream's, when a connection broke last
    int fruitless = 0;   // connections in turn that were made and moved nothing
  };
  void open();
  void beginTrial(size_t stream, Time now, bool isFirst);
  void noteBreaks(Time now);
  void refuse(const Error& error);
  /// Closes all streams for good.
  void giveUp(const char* why);
  bool left() const;  ///< it said goodbye
  bool serves() const { return !lost_ && !failure_ && !stopped_; }
  bool connectsFirst() const { return place_.rank > peer_; }
  TcpStream& streamOf(uint32_t channel, uint32_t number, uint32_t bytes);
  TcpSendLink& sendLink(int channel);
  TcpReceiveLink& receiveLink(int channel);
  bool acceptCredit(uint32_t channel, uint32_t messages);
  bool owesCredits(uint32_t least) const;

  const Place& place_;
  const int peer_;
  const uint64_t door_;
  const wire::Key half_ = wire::randomBytes<32>();
  std::optional<TcpAddressBlob> theirs_;
  wire::Key secret_{};
  std::vector<std::unique_ptr<TcpSendLink>> sends_;        // by channel, null until used
  std::vector<std::unique_ptr<TcpReceiveLink>> receives_;  // likewise
  std::vector<std::unique_ptr<TcpStream>> streams_;        // made with the first ring
  std::vector<Trial> trials_;                              // by stream
  bool isUsed_ = false, stopped_ = false, reported_ = false;
  std::optional<std::string> lost_;  // how
  std::optional<Error> failure_;
};

}  // namespace tutti::transports::tcp
