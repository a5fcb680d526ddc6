#pragma once

/// \file
/// Loads and stores of global memory with an order, a scope or a cache hint. 16 bytes are one
/// access of a uint4 (v4.u32) or a ulonglong2 (v2.u64).
///
/// PTX promises that a scalar is not torn. It does not promise that the two halves of 16 bytes
/// arrive together. Today's GPUs keep them together, but the emulation tears them. The LL128
/// protocol relies on lines of 128 bytes that eight lanes write together; see storeLine().

#include <tutti/cuda/ptx/instruction.cuh>

namespace tutti::cuda::ptx {

#define TUTTI_LOADS(name, instruction)                     \
  TUTTI_PTX uint32_t name(const uint32_t* from TUTTI_SITE) \
      TUTTI_ASM_TO(uint32_t, instruction ".u32 %0, [%1];"  \
                   : "=r"(result)                          \
                   : "l"(from)                             \
                   : "memory");                            \
  TUTTI_PTX uint64_t name(const uint64_t* from TUTTI_SITE) \
      TUTTI_ASM_TO(uint64_t, instruction ".u64 %0, [%1];"  \
                   : "=l"(result)                          \
                   : "l"(from)                             \
                   : "memory")

#define TUTTI_WIDE_LOADS(name, instruction)                                         \
  TUTTI_PTX uint4 name(const uint4* from TUTTI_SITE)                                \
      TUTTI_ASM_TO(uint4, instruction ".v4.u32 {%0, %1, %2, %3}, [%4];"             \
                   : "=r"(result.x), "=r"(result.y), "=r"(result.z), "=r"(result.w) \
                   : "l"(from)                                                      \
                   : "memory");                                                     \
  TUTTI_PTX ulonglong2 name(const ulonglong2* from TUTTI_SITE)                      \
      TUTTI_ASM_TO(ulonglong2, instruction ".v2.u64 {%0, %1}, [%2];"                \
                   : "=l"(result.x), "=l"(result.y)                                 \
                   : "l"(from)                                                      \
                   : "memory")

#define TUTTI_STORES(name, instruction)                            \
  TUTTI_PTX void name(uint32_t* to, uint32_t value TUTTI_SITE)     \
      TUTTI_ASM(instruction ".u32 [%0], %1;" ::"l"(to), "r"(value) \
                : "memory");                                       \
  TUTTI_PTX void name(uint64_t* to, uint64_t value TUTTI_SITE)     \
      TUTTI_ASM(instruction ".u64 [%0], %1;" ::"l"(to), "l"(value) \
                : "memory")

#define TUTTI_WIDE_STORES(name, instruction)                                                \
  TUTTI_PTX void name(uint4* to, uint4 value TUTTI_SITE)                                    \
      TUTTI_ASM(instruction ".v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(value.x),      \
                "r"(value.y), "r"(value.z), "r"(value.w)                                    \
                : "memory");                                                                \
  TUTTI_PTX void name(ulonglong2* to, ulonglong2 value TUTTI_SITE)                          \
      TUTTI_ASM(instruction ".v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(value.x), "l"(value.y) \
                : "memory")

// Flags. A thread that acquires a released value sees all writes before the release.
TUTTI_LOADS(ldAcquireGpu, "ld.acquire.gpu.global");
TUTTI_LOADS(ldAcquireSys, "ld.acquire.sys.global");
TUTTI_LOADS(ldRelaxedGpu, "ld.relaxed.gpu.global");
TUTTI_LOADS(ldRelaxedSys, "ld.relaxed.sys.global");
TUTTI_LOADS(ldVolatile, "ld.volatile.global");
TUTTI_WIDE_LOADS(ldRelaxedGpu, "ld.relaxed.gpu.global");
TUTTI_WIDE_LOADS(ldRelaxedSys, "ld.relaxed.sys.global");
TUTTI_WIDE_LOADS(ldVolatile, "ld.volatile.global");

TUTTI_STORES(stReleaseGpu, "st.release.gpu.global");
TUTTI_STORES(stReleaseSys, "st.release.sys.global");
TUTTI_STORES(stRelaxedGpu, "st.relaxed.gpu.global");
TUTTI_STORES(stRelaxedSys, "st.relaxed.sys.global");
TUTTI_STORES(stVolatile, "st.volatile.global");
TUTTI_WIDE_STORES(stRelaxedGpu, "st.relaxed.gpu.global");
TUTTI_WIDE_STORES(stRelaxedSys, "st.relaxed.sys.global");
TUTTI_WIDE_STORES(stVolatile, "st.volatile.global");

// Data, with cache hints: ldNcNoAllocate() for data that is read once and that nobody writes
// meanwhile, stStreaming() for data that is written once, and stWriteThrough().
TUTTI_LOADS(ldNcNoAllocate, "ld.global.nc.L1::no_allocate");
TUTTI_WIDE_LOADS(ldNcNoAllocate, "ld.global.nc.L1::no_allocate");
TUTTI_STORES(stStreaming, "st.global.cs");
TUTTI_WIDE_STORES(stStreaming, "st.global.cs");
TUTTI_STORES(stWriteThrough, "st.global.wt");
TUTTI_WIDE_STORES(stWriteThrough, "st.global.wt");

#undef TUTTI_LOADS
#undef TUTTI_WIDE_LOADS
#undef TUTTI_STORES
#undef TUTTI_WIDE_STORES

/// st.volatile.v2.u64 by all 32 lanes at once. Each eight lanes write one line of 128 bytes; lane i
/// writes the 16 bytes at to[i % 8]. The line arrives as a whole. PTX does not promise that, but
/// NVLink and the memory system do it for a converged warp. The emulation does it, too.
TUTTI_PTX void storeLine(ulonglong2* to, ulonglong2 value TUTTI_SITE)
    TUTTI_ASM("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(value.x), "l"(value.y)
              : "memory");

/// ld.volatile.v2.u64 by all 32 lanes at once, for lines that storeLine() writes.
TUTTI_PTX ulonglong2 loadLine(const ulonglong2* from TUTTI_SITE)
    TUTTI_ASM_TO(ulonglong2, "ld.volatile.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(result.x), "=l"(result.y)
                 : "l"(from)
                 : "memory");

}  // namespace tutti::cuda::ptx
