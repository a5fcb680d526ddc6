#pragma once

/// \file
/// Read-modify-write of global memory: red (without a result) and atom. The scope is the GPU or the
/// system (peer GPUs and the host). The order is relaxed, or as the name says.

#include <tutti/cuda/ptx/instruction.cuh>

namespace tutti::cuda::ptx {

#define TUTTI_RED(name, instruction)                               \
  TUTTI_PTX void name(uint32_t* at, uint32_t value TUTTI_SITE)     \
      TUTTI_ASM(instruction ".u32 [%0], %1;" ::"l"(at), "r"(value) \
                : "memory");                                       \
  TUTTI_PTX void name(uint64_t* at, uint64_t value TUTTI_SITE)     \
      TUTTI_ASM(instruction ".u64 [%0], %1;" ::"l"(at), "l"(value) \
                : "memory")

#define TUTTI_ATOM(name, instruction, suffix)                          \
  TUTTI_PTX uint32_t name(uint32_t* at, uint32_t value TUTTI_SITE)     \
      TUTTI_ASM_TO(uint32_t, instruction "." suffix "32 %0, [%1], %2;" \
                   : "=r"(result)                                      \
                   : "l"(at), "r"(value)                               \
                   : "memory");                                        \
  TUTTI_PTX uint64_t name(uint64_t* at, uint64_t value TUTTI_SITE)     \
      TUTTI_ASM_TO(uint64_t, instruction "." suffix "64 %0, [%1], %2;" \
                   : "=l"(result)                                      \
                   : "l"(at), "l"(value)                               \
                   : "memory")

#define TUTTI_CAS(name, instruction)                                                  \
  TUTTI_PTX uint32_t name(uint32_t* at, uint32_t expected, uint32_t value TUTTI_SITE) \
      TUTTI_ASM_TO(uint32_t, instruction ".b32 %0, [%1], %2, %3;"                     \
                   : "=r"(result)                                                     \
                   : "l"(at), "r"(expected), "r"(value)                               \
                   : "memory");                                                       \
  TUTTI_PTX uint64_t name(uint64_t* at, uint64_t expected, uint64_t value TUTTI_SITE) \
      TUTTI_ASM_TO(uint64_t, instruction ".b64 %0, [%1], %2, %3;"                     \
                   : "=l"(result)                                                     \
                   : "l"(at), "l"(expected), "l"(value)                               \
                   : "memory")

TUTTI_RED(redAddRelaxedGpu, "red.relaxed.gpu.global.add");
TUTTI_RED(redAddRelaxedSys, "red.relaxed.sys.global.add");
TUTTI_RED(redAddReleaseGpu, "red.release.gpu.global.add");
TUTTI_RED(redAddReleaseSys, "red.release.sys.global.add");
TUTTI_RED(redMaxRelaxedGpu, "red.relaxed.gpu.global.max");
TUTTI_RED(redMaxRelaxedSys, "red.relaxed.sys.global.max");

TUTTI_ATOM(atomAddRelaxedGpu, "atom.relaxed.gpu.global.add", "u");
TUTTI_ATOM(atomAddRelaxedSys, "atom.relaxed.sys.global.add", "u");
TUTTI_ATOM(atomAddAcqRelGpu, "atom.acq_rel.gpu.global.add", "u");
TUTTI_ATOM(atomAddAcqRelSys, "atom.acq_rel.sys.global.add", "u");
TUTTI_ATOM(atomMaxRelaxedGpu, "atom.relaxed.gpu.global.max", "u");
TUTTI_ATOM(atomMaxRelaxedSys, "atom.relaxed.sys.global.max", "u");
TUTTI_ATOM(atomExchAcqRelGpu, "atom.acq_rel.gpu.global.exch", "b");
TUTTI_ATOM(atomExchAcqRelSys, "atom.acq_rel.sys.global.exch", "b");
TUTTI_CAS(atomCasAcqRelGpu, "atom.acq_rel.gpu.global.cas");
TUTTI_CAS(atomCasAcqRelSys, "atom.acq_rel.sys.global.cas");

#undef TUTTI_RED
#undef TUTTI_ATOM
#undef TUTTI_CAS

/// red.add of one float, relaxed, at GPU scope. The order of several additions is not defined.
TUTTI_PTX void redAddF32(float* at, float value TUTTI_SITE)
    TUTTI_ASM("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(at), "f"(value)
              : "memory");

/// red.add of two floats at an address that is a multiple of 8 bytes. sm_90.
TUTTI_PTX void redAddV2F32(float* at, float first, float second TUTTI_SITE)
    TUTTI_ASM("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" ::"l"(at), "f"(first), "f"(second)
              : "memory");

}  // namespace tutti::cuda::ptx
