// multimem; see include/tutti/cuda/ptx/multimem.cuh, and bindMulticast() of emulation.h.

#include <bit>
#include <map>
#include <mutex>

#include "tests/emulation/ptx/global.h"
#include "tests/emulation/ptx/numbers.h"
#include "tests/emulation/quiet.h"

namespace tutti::emulation {
namespace {

struct Range {
  size_t bytes;
  std::vector<char*> replicas;
};
struct Ranges {
  QuietMutex mutex;
  std::map<const char*, Range> byAddress;
};
Ranges& ranges() {
  static auto* const all = new Ranges;
  return *all;
}

/// Where `bytes` bytes at a multicast address are, on each device.
template <class Word>
std::vector<Word*> replicasOf(const void* address, size_t bytes, Site site) {
  requireAligned(address, bytes, "multimem", site);
  beforeAtomic(site);
  Ignored ignored;
  std::lock_guard lock(ranges().mutex);
  const auto* const at = static_cast<const char*>(address);
  auto above = ranges().byAddress.upper_bound(at);
  if (above == ranges().byAddress.begin()) failAt(site, "multimem at an address of no multicast");
  const auto& [start, range] = *--above;
  if (at + bytes > start + range.bytes) failAt(site, "multimem at an address of no multicast");
  std::vector<Word*> all;
  for (char* replica : range.replicas)
    all.push_back(reinterpret_cast<Word*>(replica + (at - start)));
  return all;
}

template <class Value>
uint32_t bitsAt(const Value& value, int i) {
  return std::bit_cast<std::array<uint32_t, 4>>(value)[static_cast<size_t>(i)];
}

/// Word by word over all replicas. A word is one float, or two 16-bit numbers added in float.
template <class Value, class Combine>
Value reduceLoad(const Value* from, Site site, Combine combine) {
  const auto replicas = replicasOf<uint32_t>(from, sizeof(Value), site);
  std::array<uint32_t, 4> result{};
  for (size_t i = 0; i < 4; ++i) {
    std::vector<uint32_t> words;
    for (uint32_t* replica : replicas)
      words.push_back(loadFlag(replica + i, __ATOMIC_RELAXED, site));
    result[i] = combine(words);
  }
  return std::bit_cast<Value>(result);
}

uint32_t addFloats(const std::vector<uint32_t>& words) {
  float sum = 0;
  for (uint32_t word : words) sum += std::bit_cast<float>(word);
  return std::bit_cast<uint32_t>(sum);
}

template <float (*kRead)(uint16_t), uint16_t (*kWrite)(float)>
uint32_t addPairs(const std::vector<uint32_t>& words) {
  float low = 0, high = 0;
  for (uint32_t word : words) {
    low += kRead(static_cast<uint16_t>(word));
    high += kRead(static_cast<uint16_t>(word >> 16));
  }
  return kWrite(low) | uint32_t(kWrite(high)) << 16;
}

template <class Value>
void storeAll(Value* to, const Value& value, Site site) {
  for (uint32_t* replica : replicasOf<uint32_t>(to, sizeof(Value), site))
    for (int i = 0; i < 4; ++i) storeFlag(replica + i, bitsAt(value, i), __ATOMIC_RELAXED, site);
}

void addWord(uint32_t* at, uint32_t value, int order, Site site) {
  for (uint32_t* replica : replicasOf<uint32_t>(at, 4, site))
    atomicUpdate(replica, orderAfterFence(order), [value](uint32_t old) { return old + value; });
  thisWorker().progress();
}

}  // namespace

void bindMulticast(const void* address, size_t bytes, std::vector<void*> replicas) {
  Ignored ignored;
  std::lock_guard lock(ranges().mutex);
  Range range{bytes, {}};
  for (void* replica : replicas) range.replicas.push_back(static_cast<char*>(replica));
  ranges().byAddress[static_cast<const char*>(address)] = range;
}

void unbindMulticast(const void* address) {
  Ignored ignored;
  std::lock_guard lock(ranges().mutex);
  ranges().byAddress.erase(static_cast<const char*>(address));
}

}  // namespace tutti::emulation

namespace tutti::cuda::ptx {

using namespace emulation;

float4 multimemLdReduceAddF32(const float4* from, Site site) {
  return reduceLoad(from, site, addFloats);
}
uint4 multimemLdReduceAddBf16(const uint4* from, Site site) {
  return reduceLoad(from, site, addPairs<fromBf16, toBf16>);
}
uint4 multimemLdReduceAddF16(const uint4* from, Site site) {
  return reduceLoad(from, site, addPairs<fromF16, toF16>);
}
void multimemStF32(float4* to, float4 value, Site site) { storeAll(to, value, site); }
void multimemStBf16(uint4* to, uint4 value, Site site) { storeAll(to, value, site); }
void multimemRedAddRelaxed(uint32_t* at, uint32_t value, Site site) {
  addWord(at, value, __ATOMIC_RELAXED, site);
}
void multimemRedAddRelease(uint32_t* at, uint32_t value, Site site) {
  addWord(at, value, __ATOMIC_RELEASE, site);
}
void multimemRedAddF32(float4* at, float4 value, Site site) {
  for (uint32_t* replica : replicasOf<uint32_t>(at, sizeof value, site))
    for (int i = 0; i < 4; ++i)
      atomicUpdate(replica + i, __ATOMIC_RELAXED, [&](uint32_t old) {
        return std::bit_cast<uint32_t>(std::bit_cast<float>(old) +
                                       std::bit_cast<float>(bitsAt(value, i)));
      });
  thisWorker().progress();
}

}  // namespace tutti::cuda::ptx
