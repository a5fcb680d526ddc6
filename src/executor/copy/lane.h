#pragma once

// One stream's messages. A message goes into a slot of the receiver's memory; behind it the sender
// copies a mark there, for which the receiver's stream waits; and the receiver, when it has read
// the slot, copies a word into the sender's memory, for which the sender's stream waits before it
// uses the slot again. Each clears in its own memory what it has waited for before it tells the
// other. So all words are as before when a message is through, and the messages of every operation
// are numbered from 0. Of a peer that memory of the host joins, slots and words lie there.

#include "src/executor/copy/stream_queue.h"
#include "src/executor/copy/streams.h"
#include "src/executor/copy/words.h"
#include "transports/p2p/endpoint.h"

namespace tutti::executor::copy {

/// What the lanes of a rank share.
struct Ground {
  const transports::p2p::P2pEndpoint& endpoint;
  OwnWords* own;  ///< in device memory
  unsigned waitFlags;
};

/// To or from a peer. Messages of a link (peer, channel, direction) are in one lane.
struct CopyMessage {
  int channel, peer;
  uint64_t number;  ///< of the link's in this operation, from 0
  uint64_t bytes;
};

class CopyLane {
 public:
  /// `key`: of the call, its fingerprint; of a transfer, its transferKey(). The same at both ends.
  CopyLane(const Ground& ground, uint32_t number, const LaneStream& stream, uint64_t key);

  /// Messages from here on are of another transfer.
  void setKey(uint64_t key) { key_ = key; }

  /// What another one of this rank has been given so far.
  void awaitLane(CopyLane& other);
  void awaitMessage(const CopyMessage& message);
  void awaitSlot(const CopyMessage& message);
  unsigned char* received(const CopyMessage& message) const;
  unsigned char* slot(const CopyMessage& message) const;
  void tell(const CopyMessage& message);
  void giveBack(const CopyMessage& message);
  /// Waits for nothing more.
  void end();

  /// To or from a slot, or between memory of this rank. By a kernel where both are of the host: for
  /// such a copy CUDA has the caller wait, and the stream may wait for a peer.
  void copy(void* to, const void* from, uint64_t bytes);
  void copyRows(const CopyRows& rows);

  StreamQueue& queue() { return queue_; }

 private:
  bool areOfHost(const void* to, const void* from) const;
  uint32_t slotOf(const CopyMessage& message) const;
  void expect(Waiting what, const CopyMessage& message);
  void pass();
  void set(uint32_t* word, uint32_t& has, uint32_t value);

  const Ground& ground_;
  LaneWords* const words_;
  uint64_t key_;
  LaneStream stream_;
  StreamQueue queue_;
  // What the words have by now; nothing is known of them where an operation begins.
  static constexpr uint32_t kUnknown = ~0u;
  uint32_t call_ = kUnknown, told_ = kUnknown, stagedCall_ = kUnknown;
};

}  // namespace tutti::executor::copy
