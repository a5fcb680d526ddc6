#pragma once

// Sends and receives with tags, in any order, between any two ranks of a group.
//
// Each direction between two ranks is a channel: a communicator of two ranks with a stream, on
// which Tutti's progress engine moves data. A channel is opened by the first message of its
// direction, on a thread of its own, when both ranks have asked for it.
//
// A message is a header of fixed size, which carries short payloads too, and behind it a longer
// payload, in pieces. The receiver reads a header while a receive waits that it may match, and then
// the payload right into the buffer of the receive. Only a message that no receive waits for is
// kept aside, and copied when its receive comes. Memory aside grows with the pieces that have come.
//
//   sender    header(tag 7, 1 MiB)  payload ------------>  into the buffer of receive(tag 7)
//             header(tag 9, 8 B + payload) ------------->  kept aside until receive(tag 9)

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <stop_token>
#include <vector>

#include <tutti/tutti.h>

#include "tasks.h"

namespace tutti_torch {

/// What a message carries besides its payload. Two messages match by it.
struct Label {
  int64_t tag = 0;
  int64_t kind = 0;  ///< 0: the program's; 1: of monitoredBarrier()
  bool operator==(const Label&) const = default;
};

/// A send or a receive.
class MessageTransfer final : public Task {
 public:
  static constexpr int kAnyRank = -1;

  MessageTransfer(milliseconds timeout, int otherRank, Label name, void* buffer, size_t byteCount)
      : Task(timeout), label(name), data(buffer), bytes(byteCount), peer(otherRank) {}

  const Label label;
  void* const data;
  const size_t bytes;
  std::atomic<int> peer;           ///< of a receive from any rank, the sender once that is known
  std::atomic<bool> begun{false};  ///< its buffer is in use; or it was given up before
  std::shared_ptr<JobQueue> ends;  ///< set before it begins; its threads hear of the end

 protected:
  /// What hears of the end may wait, for Python's lock as one, and the progress engine must not.
  void tell(std::vector<std::function<void()>> then) override;
};

class Channel;

class MessageBoard {
 public:
  /// Joins a communicator of `sender`, as rank 0, and `receiver`.
  using Open = std::function<tutti::Communicator(int sender, int receiver, std::stop_token)>;

  MessageBoard(int rank, int size, Open open);
  ~MessageBoard();

  void send(const std::shared_ptr<MessageTransfer>& transfer);
  void receive(const std::shared_ptr<MessageTransfer>& transfer);
  /// Ends a transfer with `error` that has not begun; otherwise ends its channel, and it with it.
  void giveUp(const std::shared_ptr<MessageTransfer>& transfer, const std::exception_ptr& error);
  /// Waits for what is sent, until then; ends what is received; lets all channels go.
  void close(Clock::time_point until);
  /// Ends all transfers, on both sides.
  void abort();

 private:
  struct Kept {  // a message that came before its receive
    int source;
    Label label;
    std::vector<std::byte> data;
  };
  struct Aside {  // a message whose payload comes, and has no buffer to go to
    Kept message;
    size_t bytes;
    std::shared_ptr<MessageTransfer> receive;  // of another size; may be null
  };
  using Transfer = std::shared_ptr<MessageTransfer>;
  using Enqueue = std::function<void(tutti::Communicator&, tutti::StreamRef)>;

  void sendToSelf(const std::shared_ptr<MessageTransfer>& transfer);
  bool takeKept(const std::shared_ptr<MessageTransfer>& transfer);
  bool isWanted(int source) const;
  std::shared_ptr<MessageTransfer> match(int source, const Label& label);
  void read(int source);
  void readOn(int source, const Transfer& transfer, Enqueue enqueue, std::function<void()> then);
  void headerRead(int source);
  void readPiece(int source, const std::shared_ptr<Aside>& aside);
  void asideRead(int source, Aside& aside);
  void messageRead(int source);
  void keep(Kept message);
  void lose(int source, const Transfer& transfer, const std::exception_ptr& error);

  const int rank_;
  const Open open_;
  std::vector<std::shared_ptr<Channel>> outgoing_;  // by receiver
  std::vector<std::shared_ptr<Channel>> incoming_;  // by sender
  const std::shared_ptr<JobQueue> ends_;            // tells of the ends of transfers

  std::mutex mutex_;  // of what follows, and taken before a channel's
  std::list<std::shared_ptr<MessageTransfer>> waiting_;  // receives, in order
  std::list<Kept> kept_;
  std::vector<bool> reading_;  // by sender: a header or a payload is under way
  std::vector<bool> lost_;     // by sender: its channel has failed
  bool closed_ = false;
};

}  // namespace tutti_torch
