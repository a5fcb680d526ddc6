#pragma once

// What a kernel knows of its peers: plain words and pointers in device memory, read by host and
// device code. Whatever a rank waits for lies in its own device memory; a peer stores there. Of a
// peer that does not reach the device it lies in memory of the host that both have mapped. Of a
// peer on another host it lies in pinned memory of this host, between the kernel and a thread that
// passes it on, large payloads excepted where the network reaches this rank's device. Counts of
// messages are kept in device memory as well and not in the arguments of launches, so that a launch
// that was captured can be replayed.

#include <cstddef>
#include <cstdint>

namespace tutti::transports::p2p {

/// How a message's bytes lie in its slot, and how its receiver knows that they are there.
enum class Wire : uint8_t {
  Simple,  ///< as they are; the header's sequence number is stored last, with release
  LL,  ///< every 4 bytes have the sequence number behind them, so that nothing else is waited for
  LL128,  ///< every 120 bytes share a line with a flag of 8 bytes
};
inline constexpr int kWireCount = 3;
const char* toString(Wire wire);

/// In place of a number of bytes: no message is so long.
inline constexpr uint32_t kNoMessage = UINT32_MAX;

/// A slot begins with a line for the header.
inline constexpr uint32_t kLine = 128;

/// Of Simple. The others store its words as LL does: {callHash, operation}, {bytes, 0}.
struct MessageHeader {
  uint32_t sequence;  ///< number of the message, from 1, wrapping
  uint32_t callHash;
  uint32_t operation;
  uint32_t bytes;
  /// Of a message that leaves the host: how far its payload reaches, gaps between chunks included.
  uint32_t reach;
};
static_assert(sizeof(MessageHeader) == 20);

/// Both directions between this rank and one peer, by one wire on one channel. A peer on another
/// host has one for all wires, which is that of Simple.
struct P2pLink {
  unsigned char* sendSlots = nullptr;     ///< in the peer's memory; null: not connected
  unsigned char* receiveSlots = nullptr;  ///< in this rank's
  uint32_t* credit = nullptr;             ///< in this rank's: messages that the peer has taken
  uint32_t* peerCredit = nullptr;         ///< in the peer's: messages taken here
  uint32_t sent = 0, received = 0;        ///< by launches that have ended, wrapping
  uint32_t leavesHost = 0;                ///< 1: use the one of Simple, whose memory is pinned
  /// Of messages to another host that reach so far the payloads lie elsewhere, in slots of the same
  /// size and numbers in this rank's device memory; the rest of them lies where it does else.
  uint32_t directBytes = kNoMessage;
  unsigned char* directSendSlots = nullptr;
  unsigned char* directReceiveSlots = nullptr;
};

/// What a rank tells a peer when it enters an operation on mapped buffers.
struct LinkEntry {
  uint64_t in = 0, out = 0;  ///< its buffers, as addresses
  uint32_t callHash = 0, operation = 0;
  uint32_t number = 0;  ///< of operations on mapped buffers, from 1; written last
  uint32_t unused = 0;
};
static_assert(sizeof(LinkEntry) == 32);

/// Of one peer. Entries are two, for even and odd numbers: a rank enters an operation only after
/// it has left the one before, and writes an entry again only after all have entered the next.
struct P2pPeer {
  uint32_t* poison = nullptr;          ///< the peer's; null: not connected
  LinkEntry* entriesThere = nullptr;   ///< of this rank, in the peer's memory
  const LinkEntry* entries = nullptr;  ///< of the peer, in this rank's
};

/// A rank's own words.
struct RankWords {
  uint32_t operation = 0;  ///< collectives that have ended
  uint32_t entries = 0;    ///< of these, on mapped buffers
  uint32_t lanesDone = 0;  ///< of the call under way
  uint32_t stop = 0;       ///< not 0: a lane has given up, and all others do
  uint32_t poison = 0;     ///< stored by a peer that has given up: its rank + 1
  uint32_t followed = 0;   ///< calls that have ended, of those with another behind in their launch
  uint64_t completed = 0;  ///< calls that have ended; those that failed have not
  uint32_t discarded = 0;  ///< not 0: the host has taken back what had not begun
  /// The same as `poison`, of peers that do not reach this device; null: there are none.
  const uint32_t* hostPoison = nullptr;
};

/// Of a message by copy engines, behind it: in the receiver's memory, one for each slot. All zero:
/// no message. `call` and `complement` add up to kOpen, so that two streams' waits for "at least"
/// say that they are what is expected; kOpen itself is at least whatever is waited for.
struct alignas(16) CopyMark {
  uint32_t call;  ///< fingerprint, from 1 to kOpen - 1
  uint32_t complement;
  uint32_t alive;  ///< 1; 0 of a sender that has given up
  uint32_t told;   ///< what the sender tells of it beside its fingerprint
};
static_assert(sizeof(CopyMark) == 16);
inline constexpr uint32_t kOpen = 0x7fffffff;

/// What a rank that gives up tells a peer.
struct CopyNotice {
  uint32_t isMismatch;
  uint32_t culprit;             ///< whose message was another than expected
  uint32_t call, told;          ///< of a mark that was expected
  uint32_t sentCall, sentTold;  ///< of the one that has come
};
static_assert(sizeof(CopyNotice) == 24);

/// Distance of slots for messages of `bytes` payload. LL takes two bytes for one, LL128 at most
/// that.
constexpr uint64_t slotStride(Wire wire, uint64_t bytes) {
  return kLine + (wire == Wire::Simple ? bytes : 2 * bytes);
}

}  // namespace tutti::transports::p2p
