// Read-modify-write of global memory; see include/tutti/cuda/ptx/atomic.cuh, and CUDA C++'s atomics
// of device_words.cuh.

#include <bit>

#include "tests/emulation/ptx/global.h"

namespace tutti::emulation {
namespace {

template <class Word, class Update>
Word update(Word* at, int order, Site site, Update change) {
  requireAligned(at, sizeof(Word), "an atomic operation", site);
  if (isForbidden(at, sizeof(Word))) touchWrite(at, sizeof(Word), "an atomic operation");
  beforeAtomic(site);
  const Word old = atomicUpdate(at, orderAfterFence(order), change);
  noteRead(at, order);
  thisWorker().progress();
  return old;
}

template <class Word>
Word compareAndSwap(Word* at, Word expected, Word value, Site site) {
  requireAligned(at, sizeof(Word), "a compare and swap", site);
  if (isForbidden(at, sizeof(Word))) touchWrite(at, sizeof(Word), "a compare and swap");
  beforeAtomic(site);
  const Word wanted = expected;
  if (atomicCompareExchange(at, &expected, value, __ATOMIC_ACQ_REL))
    thisWorker().progress();
  else
    afterLook(site);
  return expected == wanted ? wanted : expected;
}

/// The word of the same size as T.
template <class T>
using WordOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

template <class T, class Update>
T updateAs(T* at, Site site, Update change) {
  using Word = WordOf<T>;
  return std::bit_cast<T>(
      update(reinterpret_cast<Word*>(at), __ATOMIC_RELAXED, site, [&](Word old) {
        return std::bit_cast<Word>(static_cast<T>(change(std::bit_cast<T>(old))));
      }));
}

}  // namespace
}  // namespace tutti::emulation

using namespace tutti::emulation;

template <class T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  return updateAs(at, {}, [value](T old) { return old + value; });
}
template <class T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  return updateAs(at, {}, [value](T) { return value; });
}
template <class T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  return updateAs(at, {}, [value](T old) { return old < value ? value : old; });
}
template <class T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  return updateAs(at, {}, [value](T old) { return value < old ? value : old; });
}
template <class T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  using Word = WordOf<T>;
  return std::bit_cast<T>(compareAndSwap(reinterpret_cast<Word*>(at), std::bit_cast<Word>(expected),
                                         std::bit_cast<Word>(value), {}));
}

#define TUTTI_ATOMICS(T)        \
  template T atomicAdd(T*, T);  \
  template T atomicExch(T*, T); \
  template T atomicMax(T*, T);  \
  template T atomicMin(T*, T);  \
  template T atomicCAS(T*, T, T);
TUTTI_ATOMICS(int)
TUTTI_ATOMICS(unsigned)
TUTTI_ATOMICS(unsigned long)
TUTTI_ATOMICS(unsigned long long)
template float atomicAdd(float*, float);
template float atomicExch(float*, float);
template double atomicAdd(double*, double);
template double atomicExch(double*, double);
#undef TUTTI_ATOMICS

namespace tutti::cuda::ptx {

#define TUTTI_RED(name, order, change)                                             \
  void name(uint32_t* at, uint32_t value, Site site) {                             \
    update(at, order, site, [value](uint32_t old) { return change(old, value); }); \
  }                                                                                \
  void name(uint64_t* at, uint64_t value, Site site) {                             \
    update(at, order, site, [value](uint64_t old) { return change(old, value); }); \
  }
#define TUTTI_ATOM(name, order, change)                                                   \
  uint32_t name(uint32_t* at, uint32_t value, Site site) {                                \
    return update(at, order, site, [value](uint32_t old) { return change(old, value); }); \
  }                                                                                       \
  uint64_t name(uint64_t* at, uint64_t value, Site site) {                                \
    return update(at, order, site, [value](uint64_t old) { return change(old, value); }); \
  }
#define TUTTI_CAS(name)                                                       \
  uint32_t name(uint32_t* at, uint32_t expected, uint32_t value, Site site) { \
    return compareAndSwap(at, expected, value, site);                         \
  }                                                                           \
  uint64_t name(uint64_t* at, uint64_t expected, uint64_t value, Site site) { \
    return compareAndSwap(at, expected, value, site);                         \
  }

namespace {
constexpr auto kAdd = [](auto old, auto value) { return old + value; };
constexpr auto kMax = [](auto old, auto value) { return old < value ? value : old; };
constexpr auto kExchange = [](auto, auto value) { return value; };
}  // namespace

TUTTI_RED(redAddRelaxedGpu, __ATOMIC_RELAXED, kAdd)
TUTTI_RED(redAddRelaxedSys, __ATOMIC_RELAXED, kAdd)
TUTTI_RED(redAddReleaseGpu, __ATOMIC_RELEASE, kAdd)
TUTTI_RED(redAddReleaseSys, __ATOMIC_RELEASE, kAdd)
TUTTI_RED(redMaxRelaxedGpu, __ATOMIC_RELAXED, kMax)
TUTTI_RED(redMaxRelaxedSys, __ATOMIC_RELAXED, kMax)
TUTTI_ATOM(atomAddRelaxedGpu, __ATOMIC_RELAXED, kAdd)
TUTTI_ATOM(atomAddRelaxedSys, __ATOMIC_RELAXED, kAdd)
TUTTI_ATOM(atomAddAcqRelGpu, __ATOMIC_ACQ_REL, kAdd)
TUTTI_ATOM(atomAddAcqRelSys, __ATOMIC_ACQ_REL, kAdd)
TUTTI_ATOM(atomMaxRelaxedGpu, __ATOMIC_RELAXED, kMax)
TUTTI_ATOM(atomMaxRelaxedSys, __ATOMIC_RELAXED, kMax)
TUTTI_ATOM(atomExchAcqRelGpu, __ATOMIC_ACQ_REL, kExchange)
TUTTI_ATOM(atomExchAcqRelSys, __ATOMIC_ACQ_REL, kExchange)
TUTTI_CAS(atomCasAcqRelGpu)
TUTTI_CAS(atomCasAcqRelSys)

void redAddF32(float* at, float value, Site site) {
  updateAs(at, site, [value](float old) { return old + value; });
}
void redAddV2F32(float* at, float first, float second, Site site) {
  requireAligned(at, 8, "red.add.v2.f32", site);
  redAddF32(at, first, site);
  redAddF32(at + 1, second, site);
}

}  // namespace tutti::cuda::ptx
