#pragma once

// One peer as an endpoint sees it: the rings between the two, by channel, and the connection that
// they share. Everything under the worker's lock.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tutti/error.h>
#include "transports/ucx/address.h"
#include "transports/ucx/link.h"
#include "transports/ucx/worker.h"

namespace tutti::transports::ucx {

class UcxPeer final : public MessageSink {
 public:
  /// `rank` is our own. It joins `used`, which has room, when a ring is asked for or a message
  /// comes.
  UcxPeer(Worker& worker, int rank, int peer, const RingLayout& layout,
          std::vector<UcxPeer*>& used);
  ~UcxPeer();  ///< posts what was published, and says goodbye
  UcxPeer(const UcxPeer&) = delete;
  UcxPeer& operator=(const UcxPeer&) = delete;

  uint64_t sink() const { return sink_; }
  bool addressed() const { return theirs_.has_value(); }
  void setAddress(UcxAddressBlob theirs);                               // once
  const ProbeAddress& responder() const { return theirs_->responder; }  // when addressed
  /// For messages about a peer that is not reached: by which devices both go, "; rank 0 goes by
  /// eth0; rank 1 goes by lo (UCX_NET_DEVICES=lo); ...".
  std::string ways() const;
  /// Rings are made, and the connection with them, when they are first asked for.
  SendRing& sendRing(int channel);
  ReceiveRing& receiveRing(int channel);
  /// As Endpoint::goDirect(). Makes no connection.
  void goDirect(int channel, const DirectSlots& slots);

  /// Posts what was published, and tells of slots that were given back: those of half a ring at
  /// once, others when the messages that are posted carry them, or when `idle`. True when it posted
  /// something.
  bool post(bool idle);
  /// UCX needs no slot of ours any more, or nobody is there to get it.
  bool sent() const;
  /// Nothing more is sent to the peer, and nothing of it put into direct slots.
  void stop();
  /// Messages whose payloads were sent zero-copy and which UCX may read, and those that it may put
  /// into direct slots.
  size_t zeroCopyUnderWay() const;
  /// Gives the connection up, for all that use it.
  void disconnect();
  /// Counts `left` down again when all that was sent to the peer has reached its host.
  void flush(const std::shared_ptr<size_t>& left);
  /// Throws Refused when the peer sent what cannot be, OutOfMemory when there was none for what it
  /// sent, and PeerLost, once, when it was lost.
  void throwFailure();

  void onData(const DataHeader& header, const Arrived& data) noexcept override;
  void onNotice(const NoticeHeader& header, std::span<const CreditEntry> credits) noexcept override;
  void onGarbage() noexcept override { failure_ = ErrorCode::Refused; }

  /// Rings that are there.
  size_t rings() const;

 private:
  class Notice;
  void use();
  void connect();
  void open();
  bool reachable() const { return connection_ && !connection_->lost() && !left_; }
  bool postData();
  bool postCredits(bool all);
  void sendNotice(std::vector<CreditEntry> credits, bool goodbye);
  bool accept(const DataHeader& header, const Arrived& data);
  bool accept(const NoticeHeader& header, std::span<const CreditEntry> credits);
  bool acceptCredit(uint32_t channel, uint32_t messages);
  SendLink& sendLink(int channel);
  ReceiveLink& receiveLink(int channel);
  std::optional<ucs_status_t> loss() const;

  Worker& worker_;
  const int rank_, peer_;
  const RingLayout layout_;
  const uint64_t sink_;
  std::optional<UcxAddressBlob> theirs_;
  Connection* connection_ = nullptr;
  std::vector<std::unique_ptr<SendLink>> sends_;        // by channel, null until used
  std::vector<std::unique_ptr<ReceiveLink>> receives_;  // likewise
  std::vector<UcxPeer*>& usedPeers_;
  bool used_ = false;
  bool left_ = false;      // it said goodbye
  bool reported_ = false;  // as lost
  std::optional<ErrorCode> failure_;
};

}  // namespace tutti::transports::ucx
