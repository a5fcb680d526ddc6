#pragma once

/// \file
/// The interface between transports and executors. A transport joins two ranks by rings: one ring
/// of slots in raw memory per direction and channel.
///
/// The sender fills a slot and publishes it: it writes the message's sequence number last. The
/// number and the fingerprint of the operation lie in the first cache line of the slot. So a small
/// message is one cache line. The receiver gives the slot back by a credit word. Each rank waits
/// only for words in its own memory: the credit lies at the sender.
///
/// Rings are concrete classes without virtual functions, because they are the hot path.

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tutti/error.h>
#include "src/base/backoff.h"
#include "src/base/bytes.h"
#include "src/base/file_descriptor.h"

namespace tutti::transports {

/// The first 16 bytes of a slot.
struct SlotHeader {
  std::atomic<uint32_t> sequence;  ///< number of the message, from 1, wraps; written last
  uint32_t callHash;   ///< fingerprint of collective, count, type, reduction, root, plan
  uint32_t operation;  ///< the communicator's operation number, truncated
  uint32_t bytes;      ///< size of the payload
};
static_assert(sizeof(SlotHeader) == 16);

inline constexpr size_t kLineBytes = 64;
inline constexpr size_t kInlineBytes = kLineBytes - sizeof(SlotHeader);

/// Where the payload of a message of `bytes` begins. A payload of at most kInlineBytes shares the
/// header's cache line; a larger one begins at the second line.
inline std::byte* payloadOf(SlotHeader* slot, size_t bytes) {
  return reinterpret_cast<std::byte*>(slot) +
         (bytes <= kInlineBytes ? sizeof(SlotHeader) : kLineBytes);
}
/// The note: a word that the sender may add to a message of more than kInlineBytes. It lies behind
/// the header, in the same cache line.
inline uint32_t& noteOf(SlotHeader* slot) { return *reinterpret_cast<uint32_t*>(slot + 1); }
/// The distance in bytes between slots that carry `slotBytes` of payload.
constexpr size_t slotStride(size_t slotBytes) {
  return kLineBytes + (slotBytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

/// Moves what this core wrote to the cache that all cores share, where another core gets it sooner
/// than from this one's own. Processors without the instruction take it for one that does nothing.
inline void demoteLines([[maybe_unused]] const std::byte* data, [[maybe_unused]] size_t bytes) {
#if defined(__x86_64__)
  for (size_t i = 0; i < bytes; i += kLineBytes) asm volatile("cldemote %0" : : "m"(data[i]));
#endif
}
/// That takes time for each line, and pays for payloads of less than so many bytes.
inline constexpr size_t kLeastKept = 2048;

/// Where a receiver wants the payload of one message, if it is the one that it expects.
struct PayloadPlace {
  std::atomic<std::byte*> at{nullptr};  ///< null: in the slot; written last
  uint32_t bytes = 0, callHash = 0, operation = 0;
  std::byte* used = nullptr;  ///< the transport has put it there; written before the number
};

/// The memory of one ring, as one of its two ends addresses it.
struct RingMemory {
  std::byte* slots = nullptr;               ///< aligned to cache lines, zeroed before first use
  std::atomic<uint32_t>* credit = nullptr;  ///< messages taken so far, wraps; zeroed
  uint32_t slotCount = 0;                   ///< a power of two
  size_t strideBytes = 0;                   ///< distance between slots
  // Only at a sender whose transport supports zero-copy sends:
  const std::byte** zeroCopy = nullptr;              ///< payload by slot; null: it is in the slot
  const std::atomic<uint32_t>* completed = nullptr;  ///< messages whose payloads are free again
  // Only at a receiver whose transport can put payloads where they are wanted:
  PayloadPlace* places = nullptr;  ///< by slot
  // Only where both ends address the same memory:
  base::SleepWord* sleeper = nullptr;  ///< on which the rank at the other end sleeps
  size_t spreadMask = 0;  ///< for payloadIn(); a power of two less one, less than a slot's payload

  bool isShared() const { return sleeper != nullptr; }
  /// Where the payload of message `number` begins in its slot. One of at least kLeastSpread bytes
  /// begins at another place in each turn of the ring: a core writes faster to lines that the other
  /// core had long ago than to those that still are in its first-level cache.
  std::byte* payloadIn(SlotHeader* slot, uint32_t number, size_t bytes) const {
    std::byte* const first = payloadOf(slot, bytes);
    if (bytes < kLeastSpread) return first;
    const size_t turn = number >> std::countr_zero(slotCount);
    return first + (turn * std::bit_ceil(bytes) & spreadMask);
  }
  static constexpr size_t kLeastSpread = 256;
};

/// Behind a store that the rank at the ring's other end may wait for.
inline void wakeOtherEnd(const RingMemory& memory) {
  if (memory.sleeper) base::wakeIfAsleep(*memory.sleeper);
}

/// The sender's end of a ring. One thread at a time may use it.
class SendRing {
 public:
  SendRing() = default;
  /// `sent` is the number of messages sent before. Only tests pass another value than 0, to start
  /// near the wrap.
  explicit SendRing(const RingMemory& memory, uint32_t sent = 0)
      : memory_(memory), sent_(sent), taken_(sent - memory.slotCount) {}

  /// True if a slot is free. The receiver writes the credit again and again, and each look at what
  /// it has written costs a cache miss: while there are slots by an earlier look, it takes none.
  bool ready() const {
    if (sent_ - taken_ < memory_.slotCount) return true;
    taken_ = memory_.credit->load(std::memory_order_acquire);
    return sent_ - taken_ < memory_.slotCount;
  }
  /// The slot that publish() sends next. Call it only if ready().
  SlotHeader* slot() const { return slotAt(sent_); }
  std::byte* payload(size_t bytes) const { return memory_.payloadIn(slot(), sent_, bytes); }
  /// Sends the slot. Its payload of `bytes` is complete.
  void publish(uint32_t callHash, uint32_t operation, uint32_t bytes) {
    SlotHeader* s = slot();
    s->callHash = callHash;
    s->operation = operation;
    s->bytes = bytes;
    if (memory_.zeroCopy) memory_.zeroCopy[sent_ & (memory_.slotCount - 1)] = nullptr;
    if (memory_.isShared() && bytes > kInlineBytes && bytes < kLeastKept)
      demoteLines(payload(bytes), bytes);
    s->sequence.store(++sent_, std::memory_order_release);
    wakeOtherEnd(memory_);
  }
  /// The same with a note, for more than kInlineBytes.
  void publish(uint32_t callHash, uint32_t operation, uint32_t bytes, uint32_t note) {
    noteOf(slot()) = note;
    publish(callHash, operation, bytes);
  }
  /// True if the transport supports zero-copy sends.
  bool canZeroCopy() const { return memory_.zeroCopy != nullptr; }
  /// A zero-copy send: like publish(), with the payload at `data`. Nobody may write to `data` until
  /// returned() is true for this message.
  void publishZeroCopy(const std::byte* data, uint32_t callHash, uint32_t operation,
                       uint32_t bytes) {
    SlotHeader* s = slot();
    s->callHash = callHash;
    s->operation = operation;
    s->bytes = bytes;
    memory_.zeroCopy[sent_ & (memory_.slotCount - 1)] = data;
    s->sequence.store(++sent_, std::memory_order_release);
  }
  /// The same with a note, for more than kInlineBytes.
  void publishZeroCopy(const std::byte* data, uint32_t callHash, uint32_t operation, uint32_t bytes,
                       uint32_t note) {
    noteOf(slot()) = note;
    publishZeroCopy(data, callHash, operation, bytes);
  }
  /// True if the transport has finished reading the payloads of all messages up to `message`.
  bool completed(uint32_t message) const {
    return static_cast<int32_t>(memory_.completed->load(std::memory_order_acquire) - message) >= 0;
  }
  uint32_t sent() const { return sent_; }  ///< number of the last message
  /// True if the receiver has given the slots of all messages up to `message` back.
  bool taken(uint32_t message) const {
    return static_cast<int32_t>(memory_.credit->load(std::memory_order_acquire) - message) >= 0;
  }
  /// The number of messages that the receiver has not taken yet.
  uint32_t inFlight() const { return sent_ - memory_.credit->load(std::memory_order_acquire); }

 private:
  SlotHeader* slotAt(uint32_t number) const {
    return reinterpret_cast<SlotHeader*>(memory_.slots +
                                         static_cast<size_t>(number & (memory_.slotCount - 1)) *
                                             memory_.strideBytes);
  }
  RingMemory memory_;
  uint32_t sent_ = 0;
  mutable uint32_t taken_ = 0;  // messages that the receiver had taken at the last look
};

/// The receiver's end of a ring. One thread at a time may use it.
class ReceiveRing {
 public:
  ReceiveRing() = default;
  explicit ReceiveRing(const RingMemory& memory, uint32_t received = 0)
      : memory_(memory), received_(received) {}

  /// True if the next message has arrived. With `beyond` it asks for a later message, so that you
  /// can leave the messages before that one in their slots.
  bool ready(uint32_t beyond = 0) const {
    return slot(beyond)->sequence.load(std::memory_order_acquire) == received_ + beyond + 1;
  }
  /// The slot of that message. Call it only if ready().
  SlotHeader* slot(uint32_t beyond = 0) const {
    const uint32_t index = (received_ + beyond) & (memory_.slotCount - 1);
    return reinterpret_cast<SlotHeader*>(memory_.slots +
                                         static_cast<size_t>(index) * memory_.strideBytes);
  }
  std::byte* payload(uint32_t beyond = 0) const {
    if (memory_.places)
      if (std::byte* const used = place(beyond).used) return used;
    SlotHeader* const at = slot(beyond);
    return memory_.payloadIn(at, received_ + beyond, at->bytes);
  }
  /// Gives the slot of the next message back to the sender.
  void release() {
    if (memory_.places) {
      place(0).at.store(nullptr, std::memory_order_relaxed);
      place(0).used = nullptr;
    }
    memory_.credit->store(++received_, std::memory_order_release);
    wakeOtherEnd(memory_);
  }
  /// True if the transport can put payloads where they are wanted.
  bool canPlace() const { return memory_.places != nullptr; }
  /// Says where the payload of a message that is not ready may go, if it has just these bytes, this
  /// fingerprint and this operation. payload() says whether it went there. The memory belongs to
  /// the transport until the message is released, or until cancelZeroCopy(). The first word of a
  /// message counts.
  void expect(std::byte* at, uint32_t bytes, uint32_t callHash, uint32_t operation,
              uint32_t beyond = 0) {
    PayloadPlace& wanted = place(beyond);
    if (wanted.at.load(std::memory_order_relaxed)) return;
    wanted.bytes = bytes;
    wanted.callHash = callHash;
    wanted.operation = operation;
    wanted.at.store(at, std::memory_order_release);
  }
  uint32_t received() const { return received_; }

 private:
  PayloadPlace& place(uint32_t beyond) const {
    return memory_.places[(received_ + beyond) & (memory_.slotCount - 1)];
  }
  RingMemory memory_;
  uint32_t received_ = 0;
};

/// The number of rings between two ranks and their size. It is equal on all ranks of a
/// communicator.
struct RingLayout {
  int channels = 1;
  uint32_t slotCount = 2;    ///< a power of two
  size_t slotBytes = 65536;  ///< payload of one message, a multiple of kLineBytes
  bool operator==(const RingLayout&) const = default;
};

/// Device memory for the payloads of direct messages. A message is direct if it has at least
/// `leastBytes`. The memory has one place per slot of the ring, with the same number. The receiver
/// gives a place back together with its slot.
struct DirectSlots {
  std::byte* first = nullptr;          ///< the place of slot 0
  size_t strideBytes = 0;              ///< distance between places
  size_t leastBytes = SIZE_MAX;        ///< more than kInlineBytes
  std::shared_ptr<const void> memory;  ///< owner; the transport keeps it while it may write there
  /// The transport's own threads call it before they touch this memory. It does not throw.
  std::function<void()> enter = {};

  std::byte* at(uint32_t index) const { return first + index * strideBytes; }
};

/// What one rank sends to one peer at set-up, so that they can connect. It includes file
/// descriptors only if both are on one host.
struct EndpointAddress {
  base::Bytes blob;
  std::vector<base::FileDescriptor> descriptors;
};

/// The transport has found that a peer is gone. Endpoint::progress() throws it. So may the first
/// use of a ring with that peer.
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

/// A reachability probe: finds out whether a peer's addresses lead to that peer. It asks beside the
/// transport's own traffic. No function of it waits.
class ReachabilityProbe {
 public:
  /// Which of the peer's addresses it asks.
  enum class Scope : uint8_t {
    All,   ///< all that the transport may use; the worst finding counts
    Used,  ///< those that the data uses, and the worst finding counts; if they are not known, it
           ///< asks all and the best finding counts
  };
  /// What the answers say.
  enum class Finding : uint8_t {
    Silence,      ///< no answer so far
    Host,         ///< a kernel has answered, but no process yet
    Peer,         ///< the peer has answered
    Elsewhere,    ///< the peer is not there: another process answered, or the answer was "nobody"
    Unreachable,  ///< there is no route
  };
  virtual ~ReachabilityProbe() = default;
  /// The finding so far.
  virtual Finding look() = 0;
  /// True if, at the last look(), the peer or a kernel had answered and still did.
  virtual bool heard() const = 0;
  /// For messages: the addresses where it has not found the peer, each with the result, such as
  /// "10.0.0.2:40123 (Connection refused)".
  virtual std::string describe() const = 0;
};

/// One rank's end of a transport, for one communicator.
///
/// \par Set-up
/// Every rank makes its endpoint and sends address(p) to each peer p. Then it calls connect() with
/// p and the address from p. After that, it may use the rings to p.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  virtual const char* name(int peer) const = 0;  ///< the transport to it: "shm", "sim", "ucx"
  /// True if the rings to this connected peer lie in memory of both: stores alone move what is
  /// sent, without progress() and flush().
  virtual bool isMemory(int /*peer*/) const { return false; }
  /// For messages about a connected peer that does not answer: the devices that both ranks use, as
  /// in "; rank 0 goes by ...". Empty if the transport has no devices.
  virtual std::string ways(int /*peer*/) const { return ""; }
  virtual const RingLayout& layout() const = 0;
  /// Of this rank's slots, in memory of the host.
  virtual uint64_t memoryBytes() const { return 0; }
  /// What to send to `peer` so that it can connect to this rank.
  virtual EndpointAddress address(int peer) = 0;
  /// Connects to `peer`. Throws Refused if the address is malformed or has another layout.
  virtual void connect(int peer, EndpointAddress address) = 0;
  /// Probes a connected peer. Null if there is nothing to find out, or no way to do so. Throws
  /// System if the probe cannot be started. Any thread may call it.
  virtual std::unique_ptr<ReachabilityProbe> probe(int /*peer*/,
                                                   ReachabilityProbe::Scope /*places*/) {
    return nullptr;
  }
  virtual SendRing& sendRing(int peer, int channel) = 0;
  virtual ReceiveRing& receiveRing(int peer, int channel) = 0;
  /// Makes large messages between this rank and `peer` direct, on one channel in both directions.
  /// Large means at least `slots.leastBytes`. Direct messages are sent zero-copy, from memory that
  /// the host need not be able to read. Those that arrive are written to `slots`. Both ranks call
  /// it before either sends. Returns false, and changes nothing, if the transport cannot do it.
  virtual bool goDirect(int peer, int channel, const DirectSlots& slots) = 0;
  /// Moves the transport's data. The executor calls it whenever a poll found nothing to do. Returns
  /// true if something moved. Throws ConnectionLost, once for each peer that is gone, and Refused
  /// if a peer sent invalid data.
  virtual bool progress() = 0;
  /// Hands over all messages and credits so far. They then reach the peers without further calls of
  /// progress(). So peers do not wait for a rank that goes off to compute.
  virtual void flush() = 0;
  /// Waits until all data that was handed over has reached the peers. Call it before this rank
  /// leaves: data in flight may be lost then. It stops waiting if no message gets through, after a
  /// minute, or when `hasFailed` returns true: a peer may be gone without the transport's
  /// knowledge. It may call `hasFailed` with the transport's locks held.
  virtual void drain(const std::function<bool()>& hasFailed) = 0;
  /// Call it before this rank leaves after a failure, instead of drain() or after it. Peers may
  /// still be connecting to this rank, or may have gone before they were connected. It does not
  /// wait.
  virtual void abandon() {}
  /// True if this rank reads that connected peer's memory where it lies.
  virtual bool readsMemory(int /*peer*/) const { return false; }
  /// Reads memory that a running operation of the peer has named. Returns 0, or an errno; then the
  /// bytes at `to` are undefined. It is ESRCH if the peer is gone or its operation has failed.
  virtual int readMemory(int /*peer*/, uint64_t /*address*/, std::byte* /*to*/, size_t /*bytes*/) {
    return ENOSYS;
  }
  /// True if peers that read this rank's memory could read this part of it.
  virtual bool isReadableByPeers(const std::byte* /*data*/, size_t /*bytes*/) const {
    return false;
  }
  /// False if an operation of that peer has failed. What was copied from memory of the peer before
  /// the call, through a mapping, does not count then. Only of peers whose rings are memory.
  virtual bool memoryCounts(int /*peer*/) const { return true; }
  /// Where a thread sleeps that waits for a peer of this endpoint; null if not all can wake it.
  virtual base::SleepPlace* sleepPlace() { return nullptr; }
  /// Cancels all sends after a failure, because zero-copy payloads belong to the caller again. The
  /// endpoint then sends nothing more, and writes nothing to direct slots. What peers read in this
  /// rank's memory from here on does not count. Returns true when it neither reads nor writes
  /// the caller's memory any more; call it again until then. Each call waits a moment at most.
  ///
  /// If none of the data in flight to a peer moves, that peer loses its connection, also for other
  /// users of the connection. Over TCP, other peers of this process that take no data at that time
  /// may lose theirs, too.
  virtual bool cancelZeroCopy() = 0;
};

}  // namespace tutti::transports
