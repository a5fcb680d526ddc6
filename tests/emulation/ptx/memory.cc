// Loads and stores of global memory; see include/tutti/cuda/ptx/memory.cuh.

#include <cstring>

#include "tests/emulation/ptx/global.h"
#include "tests/emulation/warp.h"

namespace tutti::emulation {
namespace {

// So many loads of flags in a row, and the thread counts as one that polls.
constexpr int kLooksWithoutPause = 256;

std::atomic<StoreObserver> storeObserver{nullptr};

}  // namespace

void observeStores(StoreObserver observer) { storeObserver.store(observer); }

void requireAligned(const void* address, size_t alignment, const char* what, Site site) {
  thisThread(what);
  if (address == nullptr || reinterpret_cast<uintptr_t>(address) % alignment != 0) {
    char text[32];
    snprintf(text, sizeof text, "%p", address);
    failAt(site, std::string(what) + " at " + text + ", which is no address of " +
                     std::to_string(alignment) + " aligned bytes");
  }
}

void beforeAtomic(Site site) { thisWorker().maybePreempt(site); }

void afterLook(Site site) {
  if (++currentThread->looksWithoutPause > kLooksWithoutPause)
    thisWorker().poll("a loop of loads", site);
}

int orderAfterFence(int order) {
  return order == __ATOMIC_RELAXED && currentThread->fenced ? __ATOMIC_RELEASE : order;
}

void noteRead(const void* word, int order) {
  if (!kThreadSanitizer || order == __ATOMIC_ACQUIRE || order == __ATOMIC_ACQ_REL) return;
  Ignored ignored;
  auto& reads = currentThread->relaxedLoads;
  if (reads.empty() || reads.back() != word) reads.push_back(word);
}

template <class Word>
Word loadFlag(const Word* from, int order, Site site) {
  requireAligned(from, sizeof(Word), "a load", site);
  if (isForbidden(from, sizeof(Word))) touchRead(from, sizeof(Word), "a load");
  beforeAtomic(site);
  const Word value = atomicLoad(from, order);
  noteRead(from, order);
  afterLook(site);
  return value;
}

template <class Word>
void storeFlag(Word* to, Word value, int order, Site site) {
  requireAligned(to, sizeof(Word), "a store", site);
  if (isForbidden(to, sizeof(Word))) touchWrite(to, sizeof(Word), "a store");
  beforeAtomic(site);
  order = orderAfterFence(order);
  if (StoreObserver const observer = storeObserver.load()) {
    const int device = launchOf(thisBlock()).launch->device;
    const std::string wrong = observer(device, to, order == __ATOMIC_RELEASE);
    if (!wrong.empty()) failAt(site, wrong);
  }
  atomicStore(to, value, order);
  thisWorker().progress();
}

template uint32_t loadFlag(const uint32_t*, int, Site);
template uint64_t loadFlag(const uint64_t*, int, Site);
template void storeFlag(uint32_t*, uint32_t, int, Site);
template void storeFlag(uint64_t*, uint64_t, int, Site);

namespace {

/// 16 bytes as two halves that may be torn apart, in either order.
struct Halves {
  uint64_t half[2];
};

/// Between the halves, now and then, for as long as others have something to do.
void tear(Site site) {
  if (thisWorker().seeded() && thisWorker().random() % 8 == 0)
    thisWorker().poll("an access of 16 bytes", site);
}

Halves loadHalves(const void* from, Site site) {
  requireAligned(from, 16, "a load of 16 bytes", site);
  const auto* const words = static_cast<const uint64_t*>(from);
  const int first = thisWorker().seeded() ? int(thisWorker().random() % 2) : 0;
  Halves value{};
  value.half[first] = loadFlag(words + first, __ATOMIC_RELAXED, site);
  tear(site);
  value.half[1 - first] = loadFlag(words + 1 - first, __ATOMIC_RELAXED, site);
  return value;
}

void storeHalves(void* to, Halves value, Site site) {
  requireAligned(to, 16, "a store of 16 bytes", site);
  auto* const words = static_cast<uint64_t*>(to);
  const int first = thisWorker().seeded() ? int(thisWorker().random() % 2) : 0;
  storeFlag(words + first, value.half[first], __ATOMIC_RELAXED, site);
  tear(site);
  storeFlag(words + 1 - first, value.half[1 - first], __ATOMIC_RELAXED, site);
}

template <class Value>
Value loadWide(const Value* from, Site site) {
  const Halves halves = loadHalves(from, site);
  Value value;
  std::memcpy(&value, &halves, sizeof value);
  return value;
}

template <class Value>
void storeWide(Value* to, const Value& value, Site site) {
  Halves halves;
  std::memcpy(&halves, &value, sizeof halves);
  storeHalves(to, halves, site);
}

/// Data, not flags: ThreadSanitizer takes these for ordinary accesses.
template <class Value>
Value loadData(const Value* from, Site site) {
  requireAligned(from, sizeof(Value), "a load", site);
  touchRead(from, sizeof(Value), "a load");
  Ignored ignored;
  return *from;
}

template <class Value>
void storeData(Value* to, const Value& value, Site site) {
  requireAligned(to, sizeof(Value), "a store", site);
  touchWrite(to, sizeof(Value), "a store");
  Ignored ignored;
  *to = value;
}

/// A lane's part of a line of 128 bytes.
struct LinePart {
  uint64_t* at;
  uint64_t value[2];
};

// Lane 7 of each eight has the flag in its last word: it is stored last and loaded first.
void completeStoreLines(void** slots, unsigned lanes) {
  requireFullWarp(lanes, "storeLine()");
  for (int i = 0; i < 32; ++i) {
    const auto& part = *static_cast<LinePart*>(slots[i]);
    atomicStore(part.at, part.value[0], __ATOMIC_RELAXED);
    atomicStore(part.at + 1, part.value[1], __ATOMIC_RELAXED);
  }
}

void completeLoadLines(void** slots, unsigned lanes) {
  requireFullWarp(lanes, "loadLine()");
  for (int i = 31; i >= 0; --i) {
    auto& part = *static_cast<LinePart*>(slots[i]);
    part.value[1] = atomicLoad(part.at + 1, __ATOMIC_ACQUIRE);
    part.value[0] = atomicLoad(part.at, __ATOMIC_ACQUIRE);
  }
}

void requireLine(const void* at, const char* what, Site site) {
  requireAligned(at, 16, what, site);
  if (reinterpret_cast<uintptr_t>(at) % 128 / 16 != laneOf(*currentThread) % 8)
    failAt(site, std::string(what) + ": lane i needs part i % 8 of a line of 128 bytes");
  touchRead(at, isForbidden(at, 16) ? 16 : 0, what);
}

}  // namespace
}  // namespace tutti::emulation

namespace tutti::cuda::ptx {

using namespace emulation;

#define TUTTI_LOADS(name, order)                                                         \
  uint32_t name(const uint32_t* from, Site site) { return loadFlag(from, order, site); } \
  uint64_t name(const uint64_t* from, Site site) { return loadFlag(from, order, site); }
#define TUTTI_STORES(name, order)                                                           \
  void name(uint32_t* to, uint32_t value, Site site) { storeFlag(to, value, order, site); } \
  void name(uint64_t* to, uint64_t value, Site site) { storeFlag(to, value, order, site); }
#define TUTTI_WIDE(load, store)                                                       \
  uint4 load(const uint4* from, Site site) { return loadWide(from, site); }           \
  ulonglong2 load(const ulonglong2* from, Site site) { return loadWide(from, site); } \
  void store(uint4* to, uint4 value, Site site) { storeWide(to, value, site); }       \
  void store(ulonglong2* to, ulonglong2 value, Site site) { storeWide(to, value, site); }
#define TUTTI_DATA_STORES(name)                                                      \
  void name(uint32_t* to, uint32_t value, Site site) { storeData(to, value, site); } \
  void name(uint64_t* to, uint64_t value, Site site) { storeData(to, value, site); } \
  void name(uint4* to, uint4 value, Site site) { storeData(to, value, site); }       \
  void name(ulonglong2* to, ulonglong2 value, Site site) { storeData(to, value, site); }

TUTTI_LOADS(ldAcquireGpu, __ATOMIC_ACQUIRE)
TUTTI_LOADS(ldAcquireSys, __ATOMIC_ACQUIRE)
TUTTI_LOADS(ldRelaxedGpu, __ATOMIC_RELAXED)
TUTTI_LOADS(ldRelaxedSys, __ATOMIC_RELAXED)
TUTTI_LOADS(ldVolatile, __ATOMIC_RELAXED)
TUTTI_STORES(stReleaseGpu, __ATOMIC_RELEASE)
TUTTI_STORES(stReleaseSys, __ATOMIC_RELEASE)
TUTTI_STORES(stRelaxedGpu, __ATOMIC_RELAXED)
TUTTI_STORES(stRelaxedSys, __ATOMIC_RELAXED)
TUTTI_STORES(stVolatile, __ATOMIC_RELAXED)
TUTTI_WIDE(ldRelaxedGpu, stRelaxedGpu)
TUTTI_WIDE(ldRelaxedSys, stRelaxedSys)
TUTTI_WIDE(ldVolatile, stVolatile)

uint32_t ldNcNoAllocate(const uint32_t* from, Site site) { return loadData(from, site); }
uint64_t ldNcNoAllocate(const uint64_t* from, Site site) { return loadData(from, site); }
uint4 ldNcNoAllocate(const uint4* from, Site site) { return loadData(from, site); }
ulonglong2 ldNcNoAllocate(const ulonglong2* from, Site site) { return loadData(from, site); }
TUTTI_DATA_STORES(stStreaming)
TUTTI_DATA_STORES(stWriteThrough)

void storeLine(ulonglong2* to, ulonglong2 value, Site site) {
  requireLine(to, "storeLine()", site);
  beforeAtomic(site);
  LinePart part{reinterpret_cast<uint64_t*>(to), {value.x, value.y}};
  meetInWarp(kFullWarp, &part, completeStoreLines, false, site);
  thisWorker().progress();
}

ulonglong2 loadLine(const ulonglong2* from, Site site) {
  requireLine(from, "loadLine()", site);
  beforeAtomic(site);
  LinePart part{reinterpret_cast<uint64_t*>(const_cast<ulonglong2*>(from)), {}};
  meetInWarp(kFullWarp, &part, completeLoadLines, false, site);
  afterLook(site);
  return {part.value[0], part.value[1]};
}

}  // namespace tutti::cuda::ptx
