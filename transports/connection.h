#pragma once

// What a transport offers to the executor: between two ranks, per direction and channel number, a
// ring of slots in raw memory. The sender fills a slot and publishes it by its sequence number,
// which lies in the slot's first line beside the operation's fingerprint, so that a small message
// is one cache line. The receiver gives the slot back by a credit word in the sender's memory:
// every awaited word belongs to the one who waits for it. Rings are concrete and not virtual: this
// is the hot path.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tutti/error.h>
#include "src/base/bytes.h"
#include "src/base/file_descriptor.h"

namespace tutti::transports {

/// First 16 bytes of a slot.
struct SlotHeader {
  std::atomic<uint32_t> sequence;  ///< number of the message, from 1, wrapping; written last
  uint32_t callHash;   ///< fingerprint of collective, count, type, reduction, root, plan
  uint32_t operation;  ///< the communicator's operation number, truncated
  uint32_t bytes;      ///< payload
};
static_assert(sizeof(SlotHeader) == 16);

inline constexpr size_t kLineBytes = 64;
inline constexpr size_t kInlineBytes = kLineBytes - sizeof(SlotHeader);

/// A payload of at most kInlineBytes shares the header's line; a larger one starts at the second
/// line.
inline std::byte* payloadOf(SlotHeader* slot, size_t bytes) {
  return reinterpret_cast<std::byte*>(slot) +
         (bytes <= kInlineBytes ? sizeof(SlotHeader) : kLineBytes);
}
/// Of a message of more than kInlineBytes: a word that its sender may give with it, in the rest of
/// the header's line.
inline uint32_t& noteOf(SlotHeader* slot) { return *reinterpret_cast<uint32_t*>(slot + 1); }
/// Distance of slots that carry `slotBytes` of payload.
constexpr size_t slotStride(size_t slotBytes) {
  return kLineBytes + (slotBytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

/// Where one ring lies as one of its two ends sees it.
struct RingMemory {
  std::byte* slots = nullptr;               ///< line-aligned, zeroed before first use
  std::atomic<uint32_t>* credit = nullptr;  ///< messages taken so far, wrapping; zeroed
  uint32_t slotCount = 0;                   ///< a power of two
  size_t strideBytes = 0;
  // Of a sender whose transport can send payloads that lie outside the slots:
  const std::byte** lent = nullptr;                 ///< by slot, null for one in the slot
  const std::atomic<uint32_t>* returned = nullptr;  ///< messages whose payloads are read no more
};

/// The sender's end. One thread at a time.
class SendRing {
 public:
  SendRing() = default;
  /// `sent`: number of the last message before the first; 0 unless a test starts near the wrap.
  explicit SendRing(const RingMemory& memory, uint32_t sent = 0) : memory_(memory), sent_(sent) {}

  bool ready() const {
    return sent_ - memory_.credit->load(std::memory_order_acquire) < memory_.slotCount;
  }
  /// The slot that publish() will send. Only when ready().
  SlotHeader* slot() const { return slotAt(sent_); }
  std::byte* payload(size_t bytes) const { return payloadOf(slot(), bytes); }
  void publish(uint32_t callHash, uint32_t operation, uint32_t bytes) {
    SlotHeader* s = slot();
    s->callHash = callHash;
    s->operation = operation;
    s->bytes = bytes;
    if (memory_.lent) memory_.lent[sent_ & (memory_.slotCount - 1)] = nullptr;
    s->sequence.store(++sent_, std::memory_order_release);
  }
  /// With a note; of more than kInlineBytes.
  void publish(uint32_t callHash, uint32_t operation, uint32_t bytes, uint32_t note) {
    noteOf(slot()) = note;
    publish(callHash, operation, bytes);
  }
  /// True where payloads may be lent.
  bool canLend() const { return memory_.lent != nullptr; }
  /// As publish(), of the payload at `data`, which nobody may write before it is returned.
  void lend(const std::byte* data, uint32_t callHash, uint32_t operation, uint32_t bytes) {
    SlotHeader* s = slot();
    s->callHash = callHash;
    s->operation = operation;
    s->bytes = bytes;
    memory_.lent[sent_ & (memory_.slotCount - 1)] = data;
    s->sequence.store(++sent_, std::memory_order_release);
  }
  /// With a note; of more than kInlineBytes.
  void lend(const std::byte* data, uint32_t callHash, uint32_t operation, uint32_t bytes,
            uint32_t note) {
    noteOf(slot()) = note;
    lend(data, callHash, operation, bytes);
  }
  /// True when the payloads of messages up to `message` are read no more.
  bool returned(uint32_t message) const {
    return static_cast<int32_t>(memory_.returned->load(std::memory_order_acquire) - message) >= 0;
  }
  uint32_t sent() const { return sent_; }
  /// Messages that the receiver has not taken yet.
  uint32_t inFlight() const { return sent_ - memory_.credit->load(std::memory_order_acquire); }

 private:
  SlotHeader* slotAt(uint32_t number) const {
    return reinterpret_cast<SlotHeader*>(memory_.slots +
                                         static_cast<size_t>(number & (memory_.slotCount - 1)) *
                                             memory_.strideBytes);
  }
  RingMemory memory_;
  uint32_t sent_ = 0;
};

/// The receiver's end. One thread at a time.
class ReceiveRing {
 public:
  ReceiveRing() = default;
  explicit ReceiveRing(const RingMemory& memory, uint32_t received = 0)
      : memory_(memory), received_(received) {}

  /// Whether the next message is there, or the one so many beyond it: those before it may be kept
  /// in their slots meanwhile.
  bool ready(uint32_t beyond = 0) const {
    return slot(beyond)->sequence.load(std::memory_order_acquire) == received_ + beyond + 1;
  }
  /// Only when ready().
  SlotHeader* slot(uint32_t beyond = 0) const {
    const uint32_t index = (received_ + beyond) & (memory_.slotCount - 1);
    return reinterpret_cast<SlotHeader*>(memory_.slots +
                                         static_cast<size_t>(index) * memory_.strideBytes);
  }
  std::byte* payload(uint32_t beyond = 0) const {
    return payloadOf(slot(beyond), slot(beyond)->bytes);
  }
  /// Gives the slot back to the sender.
  void release() { memory_.credit->store(++received_, std::memory_order_release); }
  uint32_t received() const { return received_; }

 private:
  RingMemory memory_;
  uint32_t received_ = 0;
};

/// How many rings an endpoint has and how large they are. Equal on all ranks of a communicator.
struct RingLayout {
  int channels = 1;
  uint32_t slotCount = 2;    ///< a power of two
  size_t slotBytes = 65536;  ///< payload of one message, a multiple of kLineBytes
  bool operator==(const RingLayout&) const = default;
};

/// Memory beside a ring's slots, of a device, for the payloads of its direct messages, which are
/// those of at least `leastBytes`. There are as many places as slots, with their numbers, and each
/// is given back with its slot.
struct DirectSlots {
  std::byte* first = nullptr;
  size_t strideBytes = 0;
  size_t leastBytes = SIZE_MAX;        ///< more than kInlineBytes
  std::shared_ptr<const void> memory;  ///< kept for as long as something may be written there
  /// Called by threads of the transport's own before they touch such memory; does not throw.
  std::function<void()> enter = {};

  std::byte* at(uint32_t index) const { return first + index * strideBytes; }
};

/// What one rank tells one peer at set-up so that they can connect. Descriptors go along where both
/// share a host.
struct Address {
  base::Bytes blob;
  std::vector<base::FileDescriptor> descriptors;
};

/// What progress() throws when the transport sees that a peer is gone, and what a first ring with
/// it may.
class ConnectionLost : public Error {
 public:
  /// `how` is a clause: "its connection broke: ...".
  ConnectionLost(int peer, const std::string& how)
      : Error(ErrorCode::PeerLost, "rank " + std::to_string(peer) + " was lost: " + how),
        peer_(peer),
        how_(how) {}
  int peer() const { return peer_; }
  const std::string& how() const { return how_; }

 private:
  int peer_;
  std::string how_;
};

/// Asks where the address of a peer leads, beside what the transport sends by itself. Nothing of it
/// waits.
class Visit {
 public:
  /// Where it asks.
  enum class Places : uint8_t {
    All,   ///< all by which the transport may go, whose worst finding counts
    Used,  ///< those that its data goes by, whose worst counts; where that is not known all, and
           ///< the best
  };
  enum class Finding : uint8_t {
    Silence,      ///< nobody has answered so far
    Host,         ///< a kernel has, and no process yet
    Peer,         ///< the peer has
    Elsewhere,    ///< another one has, or that there is nobody: the peer is not there
    Unreachable,  ///< no way leads there
  };
  virtual ~Visit() = default;
  /// What is known by now.
  virtual Finding look() = 0;
  /// At the last look: whether the peer or a kernel has answered, and has not ceased to.
  virtual bool heard() const = 0;
  /// For messages: where it asks and has not found the peer, and what came of it, "10.0.0.2:40123
  /// (Connection refused)".
  virtual std::string describe() const = 0;
};

/// One rank's end of a transport, for one communicator. Set-up: every rank makes its endpoint,
/// hands address(p) to each peer p, and calls connect(p, address from p). After that the rings to p
/// may be used.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  virtual const char* name(int peer) const = 0;  ///< by which transport: "shm", "sim", "ucx"
  /// For messages about a connected peer that is not reached: by what devices both go, "; rank 0
  /// goes by ..."; "" where there are none.
  virtual std::string ways(int /*peer*/) const { return ""; }
  virtual const RingLayout& layout() const = 0;
  virtual Address address(int peer) = 0;
  /// Throws Refused when the address is malformed or its layout differs from ours.
  virtual void connect(int peer, Address address) = 0;
  /// Of a connected peer. Null where there is nothing to find out, or no way to. Throws System
  /// where it cannot be asked for. On any thread.
  virtual std::unique_ptr<Visit> visit(int /*peer*/, Visit::Places /*places*/) { return nullptr; }
  virtual SendRing& sendRing(int peer, int channel) = 0;
  virtual ReceiveRing& receiveRing(int peer, int channel) = 0;
  /// Makes messages of at least `slots.leastBytes` between this rank and `peer` direct, on one
  /// channel in both directions: payloads that go are lent, from memory that the host need not be
  /// able to read, and those that come are put into `slots`. Both ends call it before either sends.
  /// False where the transport cannot do that, and then nothing has changed.
  virtual bool goDirect(int peer, int channel, const DirectSlots& slots) = 0;
  /// Moves what the transport moves by itself; called whenever a poll found nothing to do. True
  /// when something moved. Throws ConnectionLost, once for each peer that is gone, and Refused
  /// when one sent what cannot be.
  virtual bool progress() = 0;
  /// Hands over what this side has published and given back so far: it gets to the others without
  /// further calls of progress(), for nobody may keep them waiting by going away to compute.
  virtual void flush() = 0;
  /// Waits until what was handed over has reached the others, for as long as messages get through,
  /// a minute at most, and until `hasFailed`: one of them may be gone, which the transport does not
  /// know. To be called before this rank leaves: what is under way then may be lost. `hasFailed`
  /// may be called with the transport's locks held.
  virtual void drain(const std::function<bool()>& hasFailed) = 0;
  /// To be called before this rank leaves after a failure, instead of drain() or after it: others
  /// may be about to connect to it, or have gone before they were through. Does not wait.
  virtual void abandon() {}
  /// Takes back what was lent to it, for the caller's memory is his again when an operation has
  /// failed: sends none of it any more, and nothing else, and puts nothing into direct slots. True
  /// when it reads and writes none; until then to be called again. Waits a moment at most. A peer
  /// with whom none of what is on its way moves loses its connection, also for others who use it;
  /// over TCP other peers of this process that take nothing then may lose theirs.
  virtual bool recall() = 0;
};

}  // namespace tutti::transports
