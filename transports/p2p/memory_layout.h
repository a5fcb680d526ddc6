#pragma once

// Where everything lies in the memory that a rank gives to its peers: one allocation, so that one
// handle exports it. Offsets follow from the layout, the number of ranks and the rank, which both
// ends must have alike; none is taken from a peer. A rank has such memory on its device, and on the
// host where some peers do not reach the device: then these are its ranks.

#include <cstddef>
#include <cstdint>

#include "transports/connection.h"
#include "transports/p2p/links.h"

namespace tutti::transports::p2p {

/// Equal on all ranks of a communicator.
struct P2pLayout {
  RingLayout rings;
  size_t lowLatencyBytes =
      8192;  ///< payload of one message by LL and LL128; a multiple of kLineBytes
  /// Payload of one message by copy engines, which have slots of their own, as many as the others;
  /// a multiple of kLine, or 0: there are none.
  size_t copySlotBytes = 0;
  bool operator==(const P2pLayout&) const = default;
  size_t slotBytes(Wire wire) const {
    return wire == Wire::Simple ? rings.slotBytes : lowLatencyBytes;
  }
};

/// Bytes that one rank writes to another to see whether they arrive.
inline constexpr size_t kProbeBytes = 16384;

/// Of one ring for copies.
inline constexpr uint32_t kMostCopySlots = 256;

class MemoryLayout {
 public:
  /// Throws InvalidArgument naming what is impossible.
  MemoryLayout(const P2pLayout& layout, int ranks);

  size_t words() const { return 0; }
  /// Of `peer`: two entries.
  size_t entries(int peer) const;
  /// Of messages to `peer`.
  size_t credit(Wire wire, int channel, int peer) const;
  /// Of messages from `peer`.
  size_t slots(Wire wire, int channel, int peer) const;
  /// What `peer` writes: a line with the flag, then the pattern.
  size_t probe(int peer) const;
  // Of copy engines, where the layout has their slots.
  /// One word: not negative, or a peer that has given up.
  size_t copyPoison() const;
  /// What `peer` says when it gives up.
  size_t copyNotice(int peer) const;
  /// Of a message from `peer`.
  size_t copyMark(int channel, int peer, uint32_t slot) const;
  /// One word, of a message to `peer`: not negative when the slot is free.
  size_t copyCredit(int channel, int peer, uint32_t slot) const;
  /// A message from `peer`.
  size_t copySlot(int channel, int peer, uint32_t slot) const;
  /// Zeroed before anybody connects. What is behind it need not be.
  size_t totalBytes() const { return total_; }

 private:
  void addCopies(size_t links);
  size_t index(int channel, int peer) const;
  size_t copyIndex(int channel, int peer, uint32_t slot) const;
  P2pLayout layout_;
  int ranks_;
  size_t credits_ = 0, probes_ = 0, slots_[kWireCount] = {}, total_ = 0;
  size_t copyWords_ = 0, copyMarks_ = 0, copyCredits_ = 0, copySlots_ = 0;
};

/// What a rank has for one peer in such memory.
class PairMemory {
 public:
  /// `peer`: its number there. The layout outlives this.
  PairMemory(unsigned char* memory, const MemoryLayout& layout, int peer)
      : memory_(memory), layout_(layout), peer_(peer) {}

  /// Of all peers of this memory.
  RankWords* words() const { return at<RankWords>(layout_.words()); }
  LinkEntry* entries() const { return at<LinkEntry>(layout_.entries(peer_)); }
  uint32_t* credit(Wire wire, int channel) const {
    return at<uint32_t>(layout_.credit(wire, channel, peer_));
  }
  unsigned char* slots(Wire wire, int channel) const {
    return memory_ + layout_.slots(wire, channel, peer_);
  }
  unsigned char* probe() const { return memory_ + layout_.probe(peer_); }
  /// Of all peers of this memory.
  uint32_t* copyPoison() const { return at<uint32_t>(layout_.copyPoison()); }
  CopyNotice* copyNotice() const { return at<CopyNotice>(layout_.copyNotice(peer_)); }
  CopyMark* copyMark(int channel, uint32_t slot) const {
    return at<CopyMark>(layout_.copyMark(channel, peer_, slot));
  }
  uint32_t* copyCredit(int channel, uint32_t slot) const {
    return at<uint32_t>(layout_.copyCredit(channel, peer_, slot));
  }
  unsigned char* copySlot(int channel, uint32_t slot) const {
    return memory_ + layout_.copySlot(channel, peer_, slot);
  }

 private:
  template <class Word>
  Word* at(size_t offset) const {
    return reinterpret_cast<Word*>(memory_ + offset);
  }
  unsigned char* memory_;
  const MemoryLayout& layout_;
  int peer_;
};

/// Where everything lies in the pinned memory of this host that stands for one peer on another.
class HostMemoryLayout {
 public:
  explicit HostMemoryLayout(const P2pLayout& layout);

  /// Stored by this rank when it has given up.
  size_t poison() const { return 0; }
  /// Of messages to the peer: how many were passed on.
  size_t credit(int channel) const;
  /// Of messages from the peer: how many the kernel has taken.
  size_t peerCredit(int channel) const;
  size_t sendSlots(int channel) const;
  size_t receiveSlots(int channel) const;
  size_t totalBytes() const;
  // In memory of the device, where large payloads lie there.
  size_t directSendSlots(int channel) const { return sendSlots(channel) - sendSlots(0); }
  size_t directReceiveSlots(int channel) const { return receiveSlots(channel) - sendSlots(0); }
  size_t directBytes() const { return totalBytes() - sendSlots(0); }

 private:
  int channels_;
  size_t ringBytes_;
};

}  // namespace tutti::transports::p2p
