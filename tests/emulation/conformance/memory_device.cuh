#pragma once

// A kernel for each access of global memory.

#include <tutti/cuda/ptx.cuh>

namespace tutti::emulation::conformance {

using namespace cuda;

enum class Load { AcquireGpu, AcquireSys, RelaxedGpu, RelaxedSys, Volatile, Nc };
enum class Store {
  ReleaseGpu,
  ReleaseSys,
  RelaxedGpu,
  RelaxedSys,
  Volatile,
  Streaming,
  WriteThrough
};

template <Load kLoad, class T>
TUTTI_DEVICE T loadBy(const T* from) {
  if constexpr (kLoad == Load::AcquireGpu)
    return ptx::ldAcquireGpu(from);
  else if constexpr (kLoad == Load::AcquireSys)
    return ptx::ldAcquireSys(from);
  else if constexpr (kLoad == Load::RelaxedGpu)
    return ptx::ldRelaxedGpu(from);
  else if constexpr (kLoad == Load::RelaxedSys)
    return ptx::ldRelaxedSys(from);
  else if constexpr (kLoad == Load::Volatile)
    return ptx::ldVolatile(from);
  else
    return ptx::ldNcNoAllocate(from);
}

template <Store kStore, class T>
TUTTI_DEVICE void storeBy(T* to, T value) {
  if constexpr (kStore == Store::ReleaseGpu)
    ptx::stReleaseGpu(to, value);
  else if constexpr (kStore == Store::ReleaseSys)
    ptx::stReleaseSys(to, value);
  else if constexpr (kStore == Store::RelaxedGpu)
    ptx::stRelaxedGpu(to, value);
  else if constexpr (kStore == Store::RelaxedSys)
    ptx::stRelaxedSys(to, value);
  else if constexpr (kStore == Store::Volatile)
    ptx::stVolatile(to, value);
  else if constexpr (kStore == Store::Streaming)
    ptx::stStreaming(to, value);
  else
    ptx::stWriteThrough(to, value);
}

/// Thread i moves element i.
template <Load kLoad, Store kStore, class T>
__global__ void move(T* out, const T* in) {
  storeBy<kStore>(out + threadIdx.x, loadBy<kLoad>(in + threadIdx.x));
}

__global__ inline void moveLines(ulonglong2* out, const ulonglong2* in) {
  ptx::storeLine(out + threadIdx.x, ptx::loadLine(in + threadIdx.x));
}

enum class Atomic {
  RedAddGpu,
  RedAddSys,
  RedAddReleaseGpu,
  RedAddReleaseSys,
  RedMaxGpu,
  RedMaxSys,
  AddGpu,
  AddSys,
  AddAcqRelGpu,
  AddAcqRelSys,
  MaxGpu,
  MaxSys,
  ExchGpu,
  ExchSys,
  CasGpu,
  CasSys
};

/// Performs it at `at` with `value`; cas expects `expected`. Returns the old value, red 0.
template <Atomic kAtomic, class T>
TUTTI_DEVICE T atomicBy(T* at, T value, T expected) {
  if constexpr (kAtomic == Atomic::RedAddGpu)
    ptx::redAddRelaxedGpu(at, value);
  else if constexpr (kAtomic == Atomic::RedAddSys)
    ptx::redAddRelaxedSys(at, value);
  else if constexpr (kAtomic == Atomic::RedAddReleaseGpu)
    ptx::redAddReleaseGpu(at, value);
  else if constexpr (kAtomic == Atomic::RedAddReleaseSys)
    ptx::redAddReleaseSys(at, value);
  else if constexpr (kAtomic == Atomic::RedMaxGpu)
    ptx::redMaxRelaxedGpu(at, value);
  else if constexpr (kAtomic == Atomic::RedMaxSys)
    ptx::redMaxRelaxedSys(at, value);
  else if constexpr (kAtomic == Atomic::AddGpu)
    return ptx::atomAddRelaxedGpu(at, value);
  else if constexpr (kAtomic == Atomic::AddSys)
    return ptx::atomAddRelaxedSys(at, value);
  else if constexpr (kAtomic == Atomic::AddAcqRelGpu)
    return ptx::atomAddAcqRelGpu(at, value);
  else if constexpr (kAtomic == Atomic::AddAcqRelSys)
    return ptx::atomAddAcqRelSys(at, value);
  else if constexpr (kAtomic == Atomic::MaxGpu)
    return ptx::atomMaxRelaxedGpu(at, value);
  else if constexpr (kAtomic == Atomic::MaxSys)
    return ptx::atomMaxRelaxedSys(at, value);
  else if constexpr (kAtomic == Atomic::ExchGpu)
    return ptx::atomExchAcqRelGpu(at, value);
  else if constexpr (kAtomic == Atomic::ExchSys)
    return ptx::atomExchAcqRelSys(at, value);
  else if constexpr (kAtomic == Atomic::CasGpu)
    return ptx::atomCasAcqRelGpu(at, expected, value);
  else
    return ptx::atomCasAcqRelSys(at, expected, value);
  return 0;
}

/// out[2 i], out[2 i + 1]: what thread i left at its word in[3 i], and what it was told. Its value
/// is in[3 i + 1]; it expects in[3 i + 2].
template <Atomic kAtomic, class T>
__global__ void atomics(T* out, const T* in) {
  const unsigned i = threadIdx.x;
  out[2 * i] = in[3 * i];
  out[2 * i + 1] = atomicBy<kAtomic, T>(out + 2 * i, in[3 * i + 1], in[3 * i + 2]);
}

/// All threads of all blocks add to out[0] and count in out[1] with fences around: the last one
/// writes what it sees into out[2].
template <bool kSys>
__global__ void countWithFences(uint32_t* out) {
  ptx::redAddRelaxedGpu(out, threadIdx.x);
  if (kSys)
    ptx::fenceAcqRelSys();
  else
    ptx::fenceAcqRelGpu();
  const uint32_t before = ptx::atomAddRelaxedSys(out + 1, 1u);
  if (before + 1 == gridDim.x * blockDim.x) out[2] = ptx::ldRelaxedGpu(out);
}

}  // namespace tutti::emulation::conformance
