#pragma once

// One chunk of a step: targets = fold(sources), by all threads of a lane, or of another team that
// says how many it has. A thread takes packs of 16 bytes, the lane's threads side by side, so that
// a warp touches 512 bytes at once; each pack of every source is read, folded in registers and
// written to every target before the next.
//
// There are three loops. Sums of aligned operands have two for each type, in which many loads are
// in flight: of a list kUnroll packs of each source, of a tree some of every source. All else
// goes through one loop for all types and reductions, pack by pack: the ends of chunks, operands at
// odd addresses, slots of LL, trees of many sources or of small types. It is compiled once, for
// what folds two packs is chosen inside (reduce_device.cuh).
//
// Bound: the memory's bandwidth, sources plus targets over NVLink or HBM.

#include "src/executor/kernel/reduce_device.cuh"

namespace tutti::executor::kernel {

/// What a fold of one chunk needs to know.
struct Chunk {
  const Operand *sources, *targets;
  uint32_t sourceCount, targetCount;
  uint64_t bytes;
  uint8_t type, op;
  bool isAligned;  ///< all operands are, and none is in a slot of LL
  bool isTree;     ///< the aligned binary tree over the list
  bool isRounded;  ///< every addition rounds to the type
  int divideBy;
  const double* scalar;  ///< of sources that are scaled
};

/// Of the tree: 2^kTreeDepth - 1 sources at most.
inline constexpr int kTreeDepth = 10;

/// Packs that a thread has under way at once: of types with many lanes fewer, for want of
/// registers.
template <class Codec>
inline constexpr int kUnroll = sizeof(typename Codec::Stored) == 2 ? 2 : 4;

/// `kPacks` packs of an operand, `threads` apart.
template <int kPacks>
TUTTI_DEVICE void loadPacks(uint4 (&packed)[kPacks], const Operand& source, uint64_t first,
                            uint64_t threads) {
  const auto* const from = reinterpret_cast<const uint4*>(source.at);
#pragma unroll
  for (int u = 0; u < kPacks; ++u) packed[u] = from[first + uint64_t(u) * threads];
}

/// The same to all targets.
template <class Codec, int kPacks>
TUTTI_DEVICE void storePacks(const Chunk& chunk, const Lanes<Codec> (&sums)[kPacks], uint64_t first,
                             uint64_t threads) {
#pragma unroll 1
  for (uint32_t t = 0; t < chunk.targetCount; ++t) {
    auto* const to = reinterpret_cast<uint4*>(chunk.targets[t].at);
#pragma unroll
    for (int u = 0; u < kPacks; ++u) to[first + uint64_t(u) * threads] = sums[u].packed();
  }
}

/// Sums of whole packs of aligned operands, from `first` on in steps of the lane's threads; returns
/// where it ended. The loads of the first two sources are in flight together.
template <class Codec>
TUTTI_DEVICE uint64_t sumAligned(const Chunk& chunk, uint64_t first, uint64_t threads) {
  constexpr int kPacks = kUnroll<Codec>;
  const uint64_t packs = chunk.bytes / 16;
#pragma unroll 1
  for (; first + (kPacks - 1) * threads < packs; first += kPacks * threads) {
    uint4 packed[kPacks], next[kPacks];
    loadPacks(packed, chunk.sources[0], first, threads);
    if (chunk.sourceCount > 1) loadPacks(next, chunk.sources[1], first, threads);
    Lanes<Codec> sums[kPacks];
#pragma unroll
    for (int u = 0; u < kPacks; ++u) sums[u] = Lanes<Codec>::from(packed[u]);
#pragma unroll 1
    for (uint32_t s = 1; s < chunk.sourceCount; ++s) {
#pragma unroll
      for (int u = 0; u < kPacks; ++u)
        sums[u].template join<DeviceAdd>(Lanes<Codec>::from(next[u]), chunk.isRounded);
      if (s + 1 < chunk.sourceCount) loadPacks(next, chunk.sources[s + 1], first, threads);
    }
    storePacks(chunk, sums, first, threads);
  }
  return first;
}

/// Of a tree that a thread has in its registers, for which types of few lanes have room.
inline constexpr uint32_t kMostTreeSources = 8;
template <int kSize>
inline constexpr bool kTreeInRegisters = kSize >= 4;

/// The same for the aligned tree over at most kSources sources, whose loads are in flight together.
template <class Codec, int kSources, int kPacks>
TUTTI_DEVICE uint64_t sumTreeAligned(const Chunk& chunk, uint64_t first, uint64_t threads) {
  const uint64_t packs = chunk.bytes / 16;
  const int count = int(chunk.sourceCount);
#pragma unroll 1
  for (; first + (kPacks - 1) * threads < packs; first += kPacks * threads) {
    uint4 packed[kSources][kPacks]{};
#pragma unroll
    for (int s = 0; s < kSources; ++s)
      if (s < count) loadPacks(packed[s], chunk.sources[s], first, threads);
    Lanes<Codec> sums[kSources][kPacks];
#pragma unroll
    for (int s = 0; s < kSources; ++s)
#pragma unroll
      for (int u = 0; u < kPacks; ++u) sums[s][u] = Lanes<Codec>::from(packed[s][u]);
#pragma unroll
    for (int width = 1; width < kSources; width *= 2)
#pragma unroll
      for (int s = 0; s + width < kSources; s += 2 * width)
        if (s + width < count) {
#pragma unroll
          for (int u = 0; u < kPacks; ++u)
            sums[s][u].template join<DeviceAdd>(sums[s + width][u], chunk.isRounded);
        }
    storePacks(chunk, sums[0], first, threads);
  }
  return first;
}

/// In as many packs at a time as registers hold; those that are left at the end are not summed.
template <class Codec>
TUTTI_DEVICE uint64_t sumTreeAligned(const Chunk& chunk, uint64_t first, uint64_t threads) {
  if (chunk.sourceCount <= kMostTreeSources / 2)
    return sumTreeAligned<Codec, kMostTreeSources / 2, 4>(chunk, first, threads);
  return sumTreeAligned<Codec, kMostTreeSources, 2>(chunk, first, threads);
}

/// Sources as a list. Reduced types that are rounded once, at the end, are added up as float32.
template <Wire kWire, int kSize, class Team>
TUTTI_DEVICE uint4 foldList(Team& lane, const Chunk& chunk, const Part& part) {
  using Word = typename WordOf<kSize>::Type;
  const bool isWide = kSize <= 2 && !chunk.isRounded && isWidened(chunk.type, chunk.op);
  Wide<kSize> wide{};
  uint4 sum{};
#pragma unroll 1
  for (uint32_t s = 0; s < chunk.sourceCount; ++s) {
    uint4 next = load<kWire, Word>(lane, chunk.sources[s], part);
    if (chunk.sources[s].isScaled) next = scaledPack<kSize>(next, chunk.type, *chunk.scalar);
    if (isWide)
      addWide<kSize>(wide, next, s == 0, chunk.type, chunk.op);
    else
      sum = s == 0 ? next : joined<kSize>(sum, next, chunk.type, chunk.op);
  }
  if (isWide) return finishedWide<kSize>(wide, chunk.type, chunk.divideBy);
  return finishedPack<kSize>(sum, chunk.type, chunk.op, chunk.divideBy);
}

/// Sources as the aligned binary tree: finished subtrees wait in local memory, one for each bit
/// that is set in the number of sources read, rounded as every node is; the rest is joined from the
/// smallest up.
template <Wire kWire, int kSize, class Team>
TUTTI_DEVICE uint4 foldTree(Team& lane, const Chunk& chunk, const Part& part) {
  using Word = typename WordOf<kSize>::Type;
  uint4 waiting[kTreeDepth];
#pragma unroll 1
  for (uint32_t s = 0; s < chunk.sourceCount; ++s) {
    uint4 next = load<kWire, Word>(lane, chunk.sources[s], part);
    if (chunk.sources[s].isScaled) next = scaledPack<kSize>(next, chunk.type, *chunk.scalar);
    int level = 0;
#pragma unroll 1
    for (; (s >> level & 1) != 0; ++level)
      next = joined<kSize>(waiting[level], next, chunk.type, chunk.op);
    waiting[level] = next;
  }
  int level = __ffs(int(chunk.sourceCount)) - 1;
  uint4 sum = waiting[level];
#pragma unroll 1
  for (++level; chunk.sourceCount >> level != 0; ++level)
    if ((chunk.sourceCount >> level & 1) != 0)
      sum = joined<kSize>(waiting[level], sum, chunk.type, chunk.op);
  return finishedPack<kSize>(sum, chunk.type, chunk.op, chunk.divideBy);
}

/// The packs from `first` on, in steps of the lane's threads.
template <Wire kWire, class Word, class Team, class Value>
TUTTI_DEVICE void eachPart(Team& lane, const Chunk& chunk, uint64_t first, Value value) {
  const uint64_t packs = packCount<kWire>(chunk.bytes);
  // Of LL128 whole warps take part.
  const uint64_t end = kWire == Wire::LL128 ? (packs + 31) / 32 * 32 : packs;
#pragma unroll 1
  for (uint64_t p = first; p < end; p += lane.threads()) {
    const Part part = partAt<kWire>(p, packs, chunk.bytes);
    const uint4 result = value(part);
    // Threads that join in with another's line have read it before that one writes in place.
    if constexpr (kWire == Wire::LL128) __syncwarp();
#pragma unroll 1
    for (uint32_t t = 0; t < chunk.targetCount; ++t)
      store<kWire, Word>(chunk.targets[t], part, result);
  }
}

template <int kSize>
TUTTI_DEVICE bool isPlainSum(const Chunk& chunk) {
  if (chunk.isTree && !(kTreeInRegisters<kSize> && chunk.sourceCount <= kMostTreeSources))
    return false;
  if (!chunk.isAligned || !adds(chunk.op) || chunk.divideBy != 1) return false;
  for (uint32_t s = 0; s < chunk.sourceCount; ++s)
    if (chunk.sources[s].isScaled) return false;
  return true;
}

/// The packs from `first` on by the one loop for all types and reductions.
template <Wire kWire, int kSize, class Team>
TUTTI_DEVICE void foldParts(Team& lane, const Chunk& chunk, uint64_t first) {
  eachPart<kWire, typename WordOf<kSize>::Type>(lane, chunk, first, [&](const Part& part) {
    return chunk.isTree ? foldTree<kWire, kSize>(lane, chunk, part)
                        : foldList<kWire, kSize>(lane, chunk, part);
  });
}

template <Wire kWire, int kSize, class Team>
TUTTI_DEVICE void foldChunk(Team& lane, const Chunk& chunk) {
  uint64_t first = lane.thread;
  // Of 8-bit types they would take more registers than there are.
  if constexpr (kWire == Wire::Simple && kSize > 1)
    if (isPlainSum<kSize>(chunk))
      withCodec<kSize>(chunk.type, [&]<class Codec>() {
        if constexpr (kTreeInRegisters<kSize>)
          if (chunk.isTree) {
            first = sumTreeAligned<Codec>(chunk, first, lane.threads());
            return;
          }
        first = sumAligned<Codec>(chunk, first, lane.threads());
      });
  foldParts<kWire, kSize>(lane, chunk, first);
}

/// One source, as it is.
template <Wire kWire, class Word, class Team>
TUTTI_DEVICE void copyChunk(Team& lane, const Chunk& chunk) {
  constexpr int kPacks = 4;
  const uint64_t threads = lane.threads(), packs = chunk.bytes / 16;
  uint64_t first = lane.thread;
  if (kWire == Wire::Simple && chunk.isAligned) {
    const auto* const from = reinterpret_cast<const uint4*>(chunk.sources[0].at);
#pragma unroll 1
    for (; first + (kPacks - 1) * threads < packs; first += kPacks * threads) {
      uint4 packed[kPacks];
#pragma unroll
      for (int u = 0; u < kPacks; ++u) packed[u] = from[first + uint64_t(u) * threads];
#pragma unroll 1
      for (uint32_t t = 0; t < chunk.targetCount; ++t) {
        auto* const to = reinterpret_cast<uint4*>(chunk.targets[t].at);
#pragma unroll
        for (int u = 0; u < kPacks; ++u) to[first + uint64_t(u) * threads] = packed[u];
      }
    }
  }
  eachPart<kWire, Word>(lane, chunk, first, [&](const Part& part) {
    return load<kWire, Word>(lane, chunk.sources[0], part);
  });
}

}  // namespace tutti::executor::kernel
