#pragma once

// The words of a rank in its own device memory that no peer touches. All hold constants, so that
// what is enqueued can be captured and replayed: where a copy's bytes have to change, because the
// rank has given up, its source is changed instead.
//
// Streams wait for "at least", cyclic: a negative word is not at least 0.

#include <algorithm>
#include <cstdint>

#include "src/base/integers.h"
#include "src/base/transfer_key.h"
#include "transports/p2p/links.h"

namespace tutti::executor::copy {

using transports::p2p::CopyMark;
using transports::p2p::CopyNotice;
using transports::p2p::kOpen;

/// Of a credit: a message is in the slot. Free slots have 0.
inline constexpr uint32_t kTaken = 0x80000000;
/// Of the word that every operation waits for at its end: kPoison + the rank that has given up.
inline constexpr uint32_t kPoison = 0x80000000;

/// What is copied into words that streams wait for. A rank that gives up turns all of it around,
/// once and for good: what closes its own words opens them, and what tells peers tells nothing.
struct Sources {
  CopyMark empty{};         ///< into a mark of this rank whose message was taken
  uint32_t taken = kTaken;  ///< into a credit of this rank
  uint32_t freed = 0;       ///< into a peer's credit
  uint32_t poison = 0;      ///< into a peer's word of that name
  uint32_t unused = 0;
  CopyNotice notice{};  ///< into a peer's
};

/// Passed: what was waited for has come, and the operation goes on.
enum class Waiting : uint32_t { Nothing, Message, Slot, Passed };

/// What a lane waits for now, and expects there; written by its stream before it waits, and when
/// that is over.
struct LaneState {
  uint32_t place = 0;   ///< placeOf()
  uint32_t call = 0;    ///< fingerprint of the message
  uint32_t told = 0;    ///< told()
  uint32_t number = 0;  ///< of the message, of its link's in this operation; modulo 2^32
  bool operator==(const LaneState&) const = default;
};
static_assert(sizeof(LaneState) == 16);

/// Of a lane.
struct LaneWords {
  CopyMark stage{0, 0, 1,
                 0};  ///< the mark of its next message; `alive` is nobody's but the watcher's
  LaneState state;
};

constexpr uint32_t placeOf(Waiting what, int channel, uint32_t slot, int peer) {
  return static_cast<uint32_t>(what) << 30 | static_cast<uint32_t>(channel) << 24 | slot << 16 |
         static_cast<uint32_t>(peer);
}
constexpr Waiting waitingOf(uint32_t place) { return static_cast<Waiting>(place >> 30); }
constexpr bool isWait(uint32_t place) {
  return waitingOf(place) == Waiting::Message || waitingOf(place) == Waiting::Slot;
}
constexpr int channelOf(uint32_t place) { return static_cast<int>(place >> 24 & 63); }
constexpr uint32_t slotOf(uint32_t place) { return place >> 16 & 255; }
constexpr int peerOf(uint32_t place) { return static_cast<int>(place & 0xffff); }

constexpr bool isTransfer(uint64_t key) { return key >> 63 != 0; }

/// Of a message of a call, which has a fingerprint as its key, or of a transfer, which has its
/// transferKey(): from 1 to kOpen - 1, odd of transfers alone.
constexpr uint32_t fingerprintOf(uint64_t key, uint64_t bytes) {
  const uint64_t mixed = base::mixBits(key + base::mixBits(bytes + 1)) % (kOpen / 2);
  return static_cast<uint32_t>(2 * mixed + (isTransfer(key) ? 1 : 2));
}
constexpr bool isOfTransfer(uint32_t fingerprint) { return fingerprint % 2 != 0; }

/// What words say of a message beside its fingerprint: its bytes, and of a transfer its type, in
/// the upper 4 bits, and the number of all its elements, or the most that there is room for.
inline constexpr uint32_t kMostTold = (1U << 28) - 1;
inline uint32_t told(uint64_t key, uint64_t bytes) {
  if (!isTransfer(key)) return static_cast<uint32_t>(bytes);
  const DataType type = base::typeOf(key);
  const uint64_t count = base::bytesOf(key) / sizeOf(type);
  return static_cast<uint32_t>(type) << 28 |
         static_cast<uint32_t>(std::min<uint64_t>(count, kMostTold));
}

/// Operations are counted by copies alone: this many different words, of which each operation
/// moves the first behind the last. Behind them is the first once more: the count, so far.
inline constexpr uint32_t kCounted = 1024;

inline constexpr uint32_t kMostLanes = 256;

/// What the watcher has copied from memory of the host, on its way back there: CUDA has whoever
/// copies inside of the host wait.
struct SeenWords {
  uint32_t poison, unused[3];
  CopyNotice notice;
  CopyMark marks[kMostLanes];
};

/// All of them.
struct OwnWords {
  Sources sources;
  LaneWords lanes[kMostLanes];
  uint32_t count[kCounted + 1];
  uint32_t turned[kCounted];
  SeenWords seen;
};

}  // namespace tutti::executor::copy
