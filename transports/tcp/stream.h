#pragma once

// One of the streams between two ranks: frames in order, each exactly once, over a connection that
// may break and be made again. It keeps what it has sent until the other end has said that it came;
// on a new connection both ends say how much they have, and go on from there.
//
// Both ends may connect at the same time. Of two connections of a stream that counts which has the
// higher generation, and of equal ones that of the higher rank.

#include <algorithm>
#include <chrono>
#include <compare>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/wire/secrets.h"
#include "transports/tcp/frame_reader.h"
#include "transports/tcp/frame_writer.h"

namespace tutti::transports::tcp {

/// Which connection of a stream it is.
struct ConnectionName {
  uint32_t generation = 0;
  int connector = -1;  ///< the rank that has connected
  auto operator<=>(const ConnectionName&) const = default;
};

/// A connection whose handshake is done.
struct Proven {
  base::FileDescriptor socket;
  wire::Key session{};
  ConnectionName name;
};

class TcpStream;

/// What a stream asks of the peer that it leads to.
class StreamUser {
 public:
  struct Counted {
    FrameType type;
    uint16_t channel;
    uint32_t number;
  };
  /// Takes what has come on a stream, `limitBytes` at most; true when something did.
  virtual bool receive(TcpStream& stream, size_t limitBytes,
                       std::chrono::steady_clock::time_point now) = 0;
  /// Fills in a frame that is sent, maybe again. Its payload.
  virtual const std::byte* fill(const Counted& counted, TcpFrame& frame) = 0;
  /// What State frames tell: what was taken from each ring.
  virtual void listCredits(std::vector<CreditWord>& credits) = 0;
  virtual void onCredits(std::span<const CreditWord> credits) = 0;
  /// The other end has it.
  virtual void onReceived(const Counted& counted) = 0;
  /// The other end lacks it. Throws Refused where it has said otherwise.
  virtual void onLacked(const Counted& counted) const = 0;
  /// As FrameReceiver has them, of Data.
  virtual std::byte* onBegin(const TcpStream& stream, const TcpFrame& frame) = 0;
  virtual void onComplete(const TcpFrame& frame) = 0;

 protected:
  ~StreamUser() = default;
};

class TcpStream final : private FrameReceiver {
 public:
  /// `epoll` gets the stream's socket, with this as its data. `encrypts`: by which cipher.
  TcpStream(StreamUser& user, int ownRank, uint32_t index, int epoll,
            std::optional<wire::CipherKind> encrypts);
  ~TcpStream();
  TcpStream(const TcpStream&) = delete;
  TcpStream& operator=(const TcpStream&) = delete;

  StreamUser& user() const { return user_; }
  uint32_t index() const { return index_; }
  bool connected() const { return static_cast<bool>(socket_); }
  /// Both ends have said how much they have: frames go.
  bool made() const { return resumed_; }
  bool wasMade() const { return wasMade_; }
  /// The highest generation that was heard of, for the next try.
  uint32_t lastGeneration() const { return lastGeneration_; }
  void noteTry(uint32_t generation) { lastGeneration_ = std::max(lastGeneration_, generation); }
  /// Goes over to a new connection, where that counts more than the one that there is.
  void adopt(Proven proven);
  /// Why the last connection ended, for messages; empty: it has not.
  const std::string& broken() const { return broken_; }
  /// Closes the connection. What was not received is kept for the next one.
  void breakOff(const std::string& why);

  void queue(const StreamUser::Counted& counted) { unconfirmed_.push_back(counted); }
  /// Something of a channel up to `message` was never handed to the kernel whole.
  bool holdsBack(uint32_t channel, uint32_t message) const;
  /// Counted frames that have come, and those that the other end has confirmed.
  uint32_t moved() const { return received_ + confirmed_; }
  /// The other end confirms nothing: nothing more is to be queued.
  bool isFull() const { return unconfirmed_.size() >= kMostUnconfirmed; }
  /// All that was queued is at the other end.
  bool settled() const { return unconfirmed_.empty(); }
  /// Asks for a State frame, to tell credits or what has come.
  void wantState() { wantsState_ = true; }
  /// The other end waits to be told what has come.
  bool owesAnswer() const { return owesAnswer_; }
  /// Something has come of which the other end was not told.
  bool owesAnything() const { return received_ != told_; }
  /// Sends what can be sent; true when something went. A connection that breaks is in broken().
  bool send();
  /// Takes what has come, `limitBytes` at most; true when something did. Throws Refused.
  bool receive(size_t limitBytes);
  /// The socket is full.
  bool blocked() const { return blocked_; }
  /// The other end has said goodbye: that the connection ends is right.
  bool ended() const { return ended_; }
  /// Looks whether the other host still answers; breaks off where it does not.
  void lookForSilence(std::chrono::steady_clock::time_point now,
                      std::chrono::milliseconds patience);

 private:
  static constexpr size_t kMostUnconfirmed = 1 << 18;
  std::byte* begin(const TcpFrame& frame) override;
  void complete(const TcpFrame& frame) override;
  void onResume(const TcpFrame& frame);
  void confirm(uint32_t received, size_t most);
  size_t handedOver() const;
  size_t mayBeThere() const { return std::max(handedOver(), handedBefore_); }
  void addFrames();
  FrameWriter::Outcome write();
  void watch(bool room);

  StreamUser& user_;
  const int ownRank_;
  const uint32_t index_;
  const int epoll_;
  const std::optional<wire::CipherKind> encrypts_;
  base::FileDescriptor socket_;
  ConnectionName name_;
  FrameWriter writer_;
  FrameReader reader_{*this};
  uint32_t lastGeneration_ = 0;
  bool resumed_ = false, wasMade_ = false, blocked_ = false, ended_ = false;
  bool wantsState_ = false, owesAnswer_ = false;
  std::deque<StreamUser::Counted> unconfirmed_;
  size_t sent_ = 0;  // of unconfirmed_, given to the writer on this connection
  // Of unconfirmed_, handed over on connections before, until the other end says what it has.
  size_t handedBefore_ = 0;
  bool isLastCounted_ = false;  // the last frame given to the writer is in unconfirmed_
  uint32_t confirmed_ = 0;      // counted frames that the other end has had
  uint32_t received_ = 0;       // counted frames that have come
  uint32_t told_ = 0;           // of received_
  std::vector<CreditWord> creditsOut_, creditsIn_;  // of frames that are not whole yet
  std::optional<std::chrono::steady_clock::time_point> silentSince_;
  std::string broken_;
};

}  // namespace tutti::transports::tcp
