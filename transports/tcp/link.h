#pragma once

// The two ends of one ring over TCP. The sender's says which published messages are to be sent, and
// gives slots back; the receiver's says where a message's payload goes. All of it under the
// endpoint's lock; only slots, credit words and places are shared with the ring's user.

#include <cstdint>
#include <vector>

#include "transports/ring_storage.h"
#include "transports/tcp/frame.h"

namespace tutti::transports::tcp {

class TcpSendLink {
 public:
  TcpSendLink(const RingLayout& layout, int channel);

  SendRing& ring() { return ring_; }
  /// A message was published that is not posted yet.
  bool published() const;
  /// Takes the next one. A short payload that was to be sent zero-copy is copied into its slot:
  /// that takes less time than the peer's word that it has come.
  void post();
  /// Payload bytes of the next one, or of one that was posted.
  uint32_t bytesOf(uint32_t number) const { return storage_.slot(number)->bytes; }
  uint32_t nextNumber() const { return posted_ + 1; }
  /// Fills in what a frame says of a posted message. Its payload.
  const std::byte* fill(uint32_t number, TcpFrame& frame) const;
  /// The receiver has it.
  void onReceived(uint32_t number);
  /// The receiver has taken it, as it says.
  bool isTaken(uint32_t number) const { return !laterMessage(number, taken_); }
  /// The receiver has taken so many, more than before. False when it cannot have.
  bool onCredit(uint32_t messages);

 private:
  void advance();

  const int channel_;
  RingStorage storage_;
  SendRing ring_;
  std::vector<bool> done_;  // by slot: the caller's memory of the message there is not needed
  uint32_t posted_ = 0;     // messages that are to be sent, or were
  uint32_t over_ = 0;       // messages that are done, up to the first that is not
  uint32_t taken_ = 0;      // by the receiver, as it says
};

class TcpReceiveLink {
 public:
  explicit TcpReceiveLink(const RingLayout& layout);

  ReceiveRing& ring() { return ring_; }
  /// Where the payload of a message goes that comes by `stream`. Throws nothing; null when a
  /// correct sender would not have sent it. A message that came before by a connection that broke
  /// half-way may begin again, by the same stream.
  std::byte* begin(const TcpFrame& frame, uint32_t stream);
  /// Its payload is there.
  void complete(const TcpFrame& frame);

  /// Messages whose slots were given back, and of which the sender was not told.
  uint32_t owed() const { return taken() - told_; }
  /// The number to tell it; from now on it counts as told.
  uint32_t tell() { return told_ = taken(); }
  /// The same, of one that was told already or not.
  uint32_t taken() const { return storage_.credit().load(std::memory_order_acquire); }

 private:
  const size_t slotBytes_;
  RingStorage storage_;
  ReceiveRing ring_;
  struct Begun {
    uint32_t number = 0, stream = 0;
  };
  std::vector<Begun> begun_;  // by slot
  uint32_t told_ = 0;
};

}  // namespace tutti::transports::tcp
