#pragma once

// The two ends of one ring over UCX. The sender's posts its published slots as active messages; the
// receiver's copies what comes into the slots of the same numbers, or lets UCX fetch it to there,
// and publishes each by itself, so that messages may overtake each other on the way. All of it
// under the worker's lock; only slots and credit words are shared with the ring's user.

#include <cstdint>
#include <vector>

#include "transports/ring_storage.h"
#include "transports/ucx/worker.h"

namespace tutti::transports::ucx {

class SendLink final : public UcxLink {
 public:
  SendLink(const RingLayout& layout, int channel);

  SendRing& ring() { return ring_; }
  /// Messages of at least so many bytes are direct.
  void goDirect(size_t leastBytes) { directBytes_ = leastBytes; }
  /// A message was published that is not posted yet.
  bool published() const;
  /// It may be posted now. One that is direct waits for a connection that is made: only then it can
  /// be taken back, and the host may not be able to keep a copy of it.
  bool mayGo(const Connection& connection) const {
    return connection.made() || !isDirect(posted_ + 1);
  }
  /// Posts it. `credit`: messages taken from the ring that leads back.
  void post(Worker& worker, Connection& connection, uint64_t sink, uint32_t credit);
  /// The receiver has taken so many. False when it cannot have.
  bool onCredit(uint32_t messages);
  /// From now on nothing is posted.
  void stop() { stopped_ = true; }
  /// Messages whose payloads were sent zero-copy and which UCX may read.
  uint32_t zeroCopyUnderWay() const { return zeroCopyUnderWay_; }

 private:
  struct Sending final : UcxOperation {
    void done(ucs_status_t status) noexcept override;
    SendLink* link = nullptr;
    DataHeader header{};
    bool zeroCopy = false;
    bool over = false;
  };
  void giveBack();
  bool isDirect(uint32_t number) const { return storage_.slot(number)->bytes >= directBytes_; }

  const int channel_;
  size_t directBytes_ = SIZE_MAX;
  RingStorage storage_;
  SendRing ring_;
  std::vector<Sending> sendings_;  // by slot
  uint32_t posted_ = 0;            // messages given to UCX
  uint32_t over_ = 0;   // messages whose payloads UCX needs no more, up to the first it does
  uint32_t taken_ = 0;  // by the receiver, as it says
  uint32_t zeroCopyUnderWay_ = 0;
  bool failed_ = false;
  bool stopped_ = false;
};

class ReceiveLink final : public UcxLink {
 public:
  explicit ReceiveLink(const RingLayout& layout);

  ReceiveRing& ring() { return ring_; }
  void goDirect(const DirectSlots& slots) { direct_ = slots; }
  /// From now on nothing is put into direct slots: such messages vanish.
  void stop() { stopped_ = true; }
  /// Messages that UCX may still put there.
  uint32_t directUnderWay() const { return directUnderWay_; }
  /// False when a correct sender would not have sent it.
  bool onData(Worker& worker, const DataHeader& header, const Arrived& data);
  /// UCX could not fetch a message.
  ucs_status_t failure() const { return failure_; }

  /// Messages whose slots were given back, and of which the sender was not told.
  uint32_t owed() const { return taken() - told_; }
  /// The number to tell it; from now on it counts as told.
  uint32_t tell() { return told_ = taken(); }

 private:
  struct Fetching final : UcxOperation {
    void done(ucs_status_t status) noexcept override;
    ReceiveLink* link = nullptr;
    uint32_t number = 0;
    bool underWay = false;
    bool isDirect = false;
  };
  // Acquire: the receiver has finished reading the slots.
  uint32_t taken() const { return storage_.credit().load(std::memory_order_acquire); }

  const size_t slotBytes_;
  RingStorage storage_;
  ReceiveRing ring_;
  std::vector<Fetching> fetchings_;  // by slot
  uint32_t told_ = 0;
  DirectSlots direct_;
  uint32_t directUnderWay_ = 0;
  bool stopped_ = false;
  ucs_status_t failure_ = UCS_OK;
};

}  // namespace tutti::transports::ucx
