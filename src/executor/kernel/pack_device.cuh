#pragma once

// 16 bytes at a time: how a thread reads and writes them in user memory, whatever the alignment,
// and in slots of LL and LL128, where it waits for them.
//
//   Simple  pack p is the chunk's bytes from 16 p on
//   LL      the same, in the slot as two messages of 16 bytes: word, flag, word, flag
//   LL128   a line has 7 packs of 16 bytes and one of 8, behind which the flag is; a warp reads and
//           writes four lines at once

#include "src/executor/kernel/wait_device.cuh"

namespace tutti::executor::kernel {

using transports::p2p::Wire;

template <class T>
struct PackedElements {
  T at[16 / sizeof(T)];
};

template <class T>
TUTTI_DEVICE PackedElements<T> unpack(uint4 pack) {
  PackedElements<T> elements;
  memcpy(&elements, &pack, sizeof pack);
  return elements;
}
template <class T>
TUTTI_DEVICE uint4 pack(const PackedElements<T>& elements) {
  uint4 words;
  memcpy(&words, &elements, sizeof words);
  return words;
}

inline constexpr uint64_t kLinePayload = 120;

/// One pack of a chunk.
struct Part {
  uint64_t offset;      ///< of its first byte in the chunk
  uint64_t slotOffset;  ///< in a slot of LL or LL128
  uint32_t bytes;       ///< 16, or less at the end of a line or of the chunk
  bool isOurs;          ///< else another thread of the warp writes it to memory
};

template <Wire kWire>
TUTTI_DEVICE uint64_t packCount(uint64_t bytes) {
  return kWire == Wire::LL128 ? (bytes + kLinePayload - 1) / kLinePayload * 8 : (bytes + 15) / 16;
}

/// Threads of a warp that have no line of their own in LL128 join in with the last line.
template <Wire kWire>
TUTTI_DEVICE Part partAt(uint64_t index, uint64_t packs, uint64_t bytes) {
  Part part{16 * index, 32 * index, 16, true};
  if constexpr (kWire == Wire::LL128) {
    part.isOurs = index < packs;
    const uint64_t line = min(index / 8, packs / 8 - 1);
    part.offset = line * kLinePayload + index % 8 * 16;
    part.slotOffset = line * transports::p2p::kLine + index % 8 * 16;
    if (index % 8 == 7) part.bytes = 8;
  }
  if (part.offset >= bytes)
    part.bytes = 0;
  else if (bytes - part.offset < part.bytes)
    part.bytes = uint32_t(bytes - part.offset);
  return part;
}

template <class Word>
TUTTI_DEVICE uint4 gather(const unsigned char* from, uint32_t bytes) {
  PackedElements<Word> words{};
#pragma unroll
  for (uint32_t i = 0; i < 16 / sizeof(Word); ++i)
    if (i * sizeof(Word) < bytes) words.at[i] = reinterpret_cast<const Word*>(from)[i];
  return pack(words);
}

template <class Word>
TUTTI_DEVICE void scatter(unsigned char* to, uint4 value, uint32_t bytes) {
  const auto words = unpack<Word>(value);
#pragma unroll
  for (uint32_t i = 0; i < 16 / sizeof(Word); ++i)
    if (i * sizeof(Word) < bytes) reinterpret_cast<Word*>(to)[i] = words.at[i];
}

/// `Word` has an element's size, or is what bytes that have no type are moved by.
template <class Word>
TUTTI_DEVICE uint4 loadMemory(const Operand& operand, const Part& part) {
  const unsigned char* const from = operand.at + part.offset;
  if (operand.alignment == 16 && part.bytes == 16 && part.offset % 16 == 0)
    return *reinterpret_cast<const uint4*>(from);
  if (operand.alignment >= sizeof(Word) && part.bytes % sizeof(Word) == 0)
    return gather<Word>(from, part.bytes);
  return gather<uint8_t>(from, part.bytes);
}

template <class Word>
TUTTI_DEVICE void storeMemory(const Operand& operand, const Part& part, uint4 value) {
  unsigned char* const to = operand.at + part.offset;
  if (operand.alignment == 16 && part.bytes == 16 && part.offset % 16 == 0)
    *reinterpret_cast<uint4*>(to) = value;
  else if (operand.alignment >= sizeof(Word) && part.bytes % sizeof(Word) == 0)
    scatter<Word>(to, value, part.bytes);
  else
    scatter<uint8_t>(to, value, part.bytes);
}

/// A message of LL: two words with their flags. The halves of 16 bytes may arrive apart, so both
/// flags are looked at. Of `count` such messages, 1 or 2, the words; both are fetched together.
TUTTI_DEVICE uint4 awaitWords(KernelLane& lane, const unsigned char* from, uint32_t count,
                              uint32_t flag, int peer) {
  const auto* const at = reinterpret_cast<const uint4*>(from);
#pragma unroll 1
  for (uint32_t spins = 1;; ++spins) {
    const uint4 first = ptx::ldVolatile(at);
    const uint4 last = count > 1 ? ptx::ldVolatile(at + 1) : first;
    const bool areThere = first.y == flag && first.w == flag && last.y == flag && last.w == flag;
    if (areThere || lane.hasFailed || shouldStop(lane, spins, peer))
      return make_uint4(first.x, first.z, last.x, last.z);
    spinHint();
  }
}

TUTTI_DEVICE void sendWords(unsigned char* to, uint32_t first, uint32_t second, uint32_t flag) {
  ptx::stVolatile(reinterpret_cast<uint4*>(to), make_uint4(first, flag, second, flag));
}

/// The flag of a line: the message's number in both halves.
TUTTI_DEVICE uint64_t lineFlag(uint32_t flag) { return uint64_t(flag) << 32 | flag; }

/// By all lanes of a warp.
TUTTI_DEVICE uint4 awaitLine(KernelLane& lane, const unsigned char* from, uint32_t flag, int peer) {
  const auto* const at = reinterpret_cast<const ulonglong2*>(from);
  const bool hasFlag = threadIdx.x % 8 == 7;
  ulonglong2 got{};
  for (uint32_t spins = 1;; ++spins) {
    got = ptx::loadLine(at);
    if (__all_sync(~0u, !hasFlag || got.y == lineFlag(flag))) break;
    const bool stops = lane.hasFailed || shouldStop(lane, spins, peer);
    if (__any_sync(~0u, stops)) break;
    spinHint();
  }
  if (hasFlag) got.y = 0;
  uint4 value;
  memcpy(&value, &got, sizeof value);
  return value;
}

TUTTI_DEVICE void sendLine(unsigned char* to, uint4 value, uint32_t flag) {
  ulonglong2 half;
  memcpy(&half, &value, sizeof half);
  if (threadIdx.x % 8 == 7) half.y = lineFlag(flag);
  ptx::storeLine(reinterpret_cast<ulonglong2*>(to), half);
}

/// Of Simple by any team of threads: nothing is waited for.
template <Wire kWire, class Word, class Team>
TUTTI_DEVICE uint4 load(Team& lane, const Operand& operand, const Part& part) {
  if constexpr (kWire == Wire::Simple) {
    return loadMemory<Word>(operand, part);
  } else {
    if (!operand.inSlot) return loadMemory<Word>(operand, part);
    const unsigned char* const from = operand.at + part.slotOffset;
    if (kWire == Wire::LL128) return awaitLine(lane, from, operand.flag, operand.peer);
    return awaitWords(lane, from, part.bytes > 8 ? 2 : 1, operand.flag, operand.peer);
  }
}

template <Wire kWire, class Word>
TUTTI_DEVICE void store(const Operand& operand, const Part& part, uint4 value) {
  if (kWire == Wire::Simple || !operand.inSlot) {
    if (part.isOurs) storeMemory<Word>(operand, part, value);
    return;
  }
  unsigned char* const to = operand.at + part.slotOffset;
  if (kWire == Wire::LL128) return sendLine(to, value, operand.flag);
  sendWords(to, value.x, value.y, operand.flag);
  if (part.bytes > 8) sendWords(to + 16, value.z, value.w, operand.flag);
}

}  // namespace tutti::executor::kernel
