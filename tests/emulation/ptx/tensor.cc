// TMA; see include/tutti/cuda/ptx/tensor.cuh.

#include <atomic>
#include <cstring>

#include "tests/emulation/ptx/mbarrier.h"
#include "tests/emulation/ptx/proxy.h"
#include "tests/emulation/ptx/reduce.h"
#include "tests/emulation/tensor_map.h"

namespace tutti::emulation {
namespace {

/// A box of a tensor at coordinates, and where it lies in shared memory.
struct Box {
  TensorMap map;
  int64_t at[5];
  uint32_t shared;  // offset
};

/// Of the process: fences that show what a thread wrote to the proxy that reads tensor maps.
std::atomic<uint64_t> tensorMapReleases{0};

KnownTensorMap readAgain(const CUtensorMap* map) {
  KnownTensorMap known{map, {}, tensorMapReleases};
  std::memcpy(known.bytes.data(), map, known.bytes.size());
  return known;
}

/// What this block's proxy knows of the map, which it reads where it knows nothing.
KnownTensorMap& knownOf(const CUtensorMap* map) {
  auto& all = thisBlock().tensorMaps;
  for (KnownTensorMap& known : all)
    if (known.at == map) return known;
  return all.emplace_back(readAgain(map));
}

/// A map that has changed since the block first used or acquired it is stale in the proxy.
void expectKnown(const CUtensorMap* map, Site site) {
  if (knownOf(map).bytes != readAgain(map).bytes)
    failAt(site,
           "a tensor map that has changed is used without fence.proxy.tensormap::generic.acquire");
}

Box makeBox(const CUtensorMap* map, const int* at, int rank, uint32_t shared, Site site) {
  thisThread("cp.async.bulk.tensor");
  Box box{};
  if (reinterpret_cast<uintptr_t>(map) % 64 != 0)
    failAt(site, "a tensor map at an address that is no multiple of 64");
  touchRead(map, sizeof box.map, "a tensor map");
  Ignored ignored;
  expectKnown(map, site);
  std::memcpy(static_cast<void*>(&box.map), map, sizeof box.map);
  if (box.map.magic != TensorMap::kMagic) failAt(site, "these 128 bytes are no tensor map");
  if (box.map.rank != rank)
    failAt(site, "a tensor map of rank " + std::to_string(box.map.rank) + " for a copy of rank " +
                     std::to_string(rank));
  // A GPU says that this is an illegal instruction.
  const int64_t begin = int64_t(at[0]) * box.map.elementBytes;
  if (begin % 16 != 0)
    failAt(site, "a box that begins at byte " + std::to_string(begin) +
                     " of its rows, which is no multiple of 16");
  const auto swizzle = static_cast<cuda::ptx::Swizzle>(box.map.swizzle);
  const uint32_t unit = std::max(128u, atomBytes(swizzle));
  box.shared = offsetOf(shared);
  if (box.shared % unit != 0)
    failAt(site, "a tensor copy with this swizzle needs shared memory at a multiple of " +
                     std::to_string(unit) + ", not at " + std::to_string(box.shared));
  for (int i = 0; i < rank; ++i) box.at[i] = at[i];
  return box;
}

/// What is stored or added lies inside the tensor. On an H200 a box that begins before it, in any
/// dimension, is an illegal instruction (715), and one that crosses its end is cut by a rule that
/// depends on the swizzle and the number of dimensions; so both are refused.
void expectInside(const Box& box, const char* what, Site site) {
  for (int i = 0; i < box.map.rank; ++i) {
    const int64_t begin = box.at[i], end = begin + int64_t(box.map.box[i]);
    if (begin < 0 || end > static_cast<int64_t>(box.map.size[i]))
      failAt(site, std::string(what) + " of a box that does not lie inside the tensor: dimension " +
                       std::to_string(i) + " has " + std::to_string(box.map.size[i]) +
                       " elements, and the box is from " + std::to_string(begin) + " to " +
                       std::to_string(end));
  }
}

/// Calls row(offset in the box, global address or null, first and end of the elements inside the
/// tensor) for each row along the contiguous dimension.
template <class Row>
void forEachRow(const Box& box, Row row) {
  const TensorMap& map = box.map;
  const auto width = static_cast<int64_t>(map.box[0]);
  const auto clamp = [&](int64_t x) { return std::min(std::max<int64_t>(x, 0), width); };
  const int64_t first = clamp(-box.at[0]);
  const int64_t end = clamp(static_cast<int64_t>(map.size[0]) - box.at[0]);
  int index[5] = {};
  for (uint32_t offset = 0;; offset += map.box[0] * map.elementBytes) {
    char* global = map.base + box.at[0] * map.elementBytes;
    bool inside = first < end;
    for (int i = 1; i < map.rank; ++i) {
      const int64_t x = box.at[i] + index[i];
      inside = inside && x >= 0 && x < static_cast<int64_t>(map.size[i]);
      global += x * static_cast<int64_t>(map.strideBytes[i]);
    }
    row(offset, inside ? global : nullptr, static_cast<uint32_t>(first),
        static_cast<uint32_t>(end));
    int next = 1;
    while (next < map.rank && ++index[next] == map.box[next]) index[next++] = 0;
    if (next >= map.rank) return;
  }
}

/// Calls piece(offset in the swizzled box, global address, bytes) for pieces of at most 16 bytes
/// that lie inside the tensor.
template <class Piece>
void forEachPiece(const Box& box, Piece piece) {
  const uint32_t element = box.map.elementBytes;
  const auto swizzle = static_cast<cuda::ptx::Swizzle>(box.map.swizzle);
  forEachRow(box, [&](uint32_t offset, char* global, uint32_t first, uint32_t end) {
    if (global == nullptr) return;
    for (uint32_t at = first * element; at < end * element;) {
      const uint32_t bytes = std::min(16 - at % 16, end * element - at);
      piece(swizzled(box.shared + offset + at, swizzle) - box.shared, global + at, bytes);
      at += bytes;
    }
  });
}

template <class Touch>
void touchRows(const Box& box, Touch touch) {
  const uint32_t element = box.map.elementBytes;
  forEachRow(box, [&](uint32_t, char* global, uint32_t first, uint32_t end) {
    if (global != nullptr) touch(global + first * element, (end - first) * element);
  });
}

void load(const Box& box, uint32_t barrier, Block& block, Site site) {
  constexpr const char* kWhat = "cp.async.bulk.tensor to shared memory";
  const uint32_t bytes = box.map.boxBytes();
  deferLoad({&block,
             {box.shared, bytes},
             offsetOf(barrier),
             [box] { touchRows(box, [](char* at, uint32_t size) { touchRead(at, size, kWhat); }); },
             [box, bytes, &block, site] {
               char* const to = sharedBytes(box.shared, bytes, 16, block, site);
               std::memset(to, 0, bytes);
               forEachPiece(box, [to](uint32_t offset, const char* global, uint32_t size) {
                 std::memcpy(to + offset, global, size);
               });
             },
             kWhat},
            site);
}

void loadMulticast(const Box& box, uint32_t barrier, uint16_t blocks, Site site) {
  const auto& all = thisBlock().cluster->blocks;
  if (blocks == 0 || blocks >> all.size() != 0)
    failAt(site, "a multicast to blocks that the cluster does not have, or to none");
  for (size_t rank = 0; rank < all.size(); ++rank)
    if ((blocks >> rank & 1) != 0) load(box, barrier, *all[rank], site);
}

void store(const Box& box, Site site) {
  constexpr const char* kWhat = "cp.async.bulk.tensor to global memory";
  expectInside(box, kWhat, site);
  deferStore(
      {{box.shared, box.map.boxBytes()},
       [box] { touchRows(box, [](char* at, uint32_t size) { touchWrite(at, size, kWhat); }); },
       [box](const char* from) {
         forEachPiece(box, [from](uint32_t offset, char* global, uint32_t size) {
           std::memcpy(global, from + offset, size);
         });
       },
       kWhat},
      site);
}

void reduceAdd(const Box& box, Site site) {
  constexpr const char* kWhat = "cp.reduce.async.bulk.tensor";
  expectInside(box, kWhat, site);
  const auto type = static_cast<CUtensorMapDataType>(box.map.type);
  const ThreadContext self = thisBlock().loader;
  deferStore({{box.shared, box.map.boxBytes()},
              [box] {
                touchRows(box, [](char* at, uint32_t size) {
                  if (isForbidden(at, size)) touchWrite(at, size, kWhat);
                });
              },
              [box, type, self, site](const char* from) {
                ActingAs loader(self);
                forEachPiece(box, [&](uint32_t offset, char* global, uint32_t size) {
                  addElements(type, global, from + offset, size, site);
                });
              },
              kWhat},
             site);
}

}  // namespace
}  // namespace tutti::emulation

namespace tutti::cuda::ptx {

using namespace emulation;

#define TUTTI_TENSOR(rank)                                                                       \
  void tensorLoad(uint32_t to, const CUtensorMap* map, const int(&at)[rank], uint32_t barrier,   \
                  Site site) {                                                                   \
    const Box box = makeBox(map, at, rank, to, site);                                            \
    load(box, barrier, blockOf(to, thisBlock(), site), site);                                    \
  }                                                                                              \
  void tensorLoadMulticast(uint32_t to, const CUtensorMap* map, const int(&at)[rank],            \
                           uint32_t barrier, uint16_t blocks, Site site) {                       \
    loadMulticast(makeBox(map, at, rank, to, site), barrier, blocks, site);                      \
  }                                                                                              \
  void tensorStore(const CUtensorMap* map, const int(&at)[rank], uint32_t from, Site site) {     \
    store(makeBox(map, at, rank, from, site), site);                                             \
  }                                                                                              \
  void tensorReduceAdd(const CUtensorMap* map, const int(&at)[rank], uint32_t from, Site site) { \
    reduceAdd(makeBox(map, at, rank, from, site), site);                                         \
  }
TUTTI_TENSOR(1)
TUTTI_TENSOR(2)
TUTTI_TENSOR(3)
TUTTI_TENSOR(4)
TUTTI_TENSOR(5)

void fenceTensorMapAcquire(const CUtensorMap* map, Site site) {
  thisThread("fence.proxy.tensormap");
  touchRead(map, sizeof *map, "fence.proxy.tensormap");
  Ignored ignored;
  KnownTensorMap& known = knownOf(map);
  const KnownTensorMap now = readAgain(map);
  if (known.bytes != now.bytes && known.releases == now.releases)
    failAt(site,
           "a tensor map has changed, and no thread has executed "
           "fence.proxy.tensormap::generic.release since");
  known = now;
}
void fenceTensorMapRelease(Site) {
  thisThread("fence.proxy.tensormap");
  ++tensorMapReleases;
}

void prefetchTensorMap(const CUtensorMap* map, Site site) {
  thisThread("prefetch.tensormap");
  TensorMap read;
  Ignored ignored;
  std::memcpy(static_cast<void*>(&read), map, sizeof read);
  if (read.magic != TensorMap::kMagic) failAt(site, "these 128 bytes are no tensor map");
}

}  // namespace tutti::cuda::ptx
