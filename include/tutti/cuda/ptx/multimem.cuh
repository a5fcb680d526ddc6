#pragma once

/// \file
/// multimem (sm_90). One address stands for the same place in the memory of several GPUs, which a
/// multicast object binds together. Loads reduce over all GPUs and stores go to all, in the switch.

#include <tutti/cuda/ptx/instruction.cuh>

namespace tutti::cuda::ptx {

/// Loads the sum over all GPUs, of four floats or of eight bf16 or f16. The latter two are added in
/// float.
TUTTI_PTX float4 multimemLdReduceAddF32(const float4* from TUTTI_SITE)
    TUTTI_ASM_TO(float4, "multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(result.x), "=f"(result.y), "=f"(result.z), "=f"(result.w)
                 : "l"(from)
                 : "memory");
TUTTI_PTX uint4 multimemLdReduceAddBf16(const uint4* from TUTTI_SITE) TUTTI_ASM_TO(
    uint4, "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 {%0, %1, %2, %3}, [%4];"
    : "=r"(result.x), "=r"(result.y), "=r"(result.z), "=r"(result.w)
    : "l"(from)
    : "memory");
TUTTI_PTX uint4 multimemLdReduceAddF16(const uint4* from TUTTI_SITE) TUTTI_ASM_TO(
    uint4, "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.f16x2 {%0, %1, %2, %3}, [%4];"
    : "=r"(result.x), "=r"(result.y), "=r"(result.z), "=r"(result.w)
    : "l"(from)
    : "memory");

/// Stores four floats, or eight bf16, to all GPUs.
TUTTI_PTX void multimemStF32(float4* to, float4 value TUTTI_SITE)
    TUTTI_ASM("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to),
              "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
              : "memory");
TUTTI_PTX void multimemStBf16(uint4* to, uint4 value TUTTI_SITE)
    TUTTI_ASM("multimem.st.relaxed.sys.global.v4.bf16x2 [%0], {%1, %2, %3, %4};" ::"l"(to),
              "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
              : "memory");

/// Adds to a word on all GPUs. The second function is also a release, for flags.
TUTTI_PTX void multimemRedAddRelaxed(uint32_t* at, uint32_t value TUTTI_SITE)
    TUTTI_ASM("multimem.red.relaxed.sys.global.add.u32 [%0], %1;" ::"l"(at), "r"(value)
              : "memory");
TUTTI_PTX void multimemRedAddRelease(uint32_t* at, uint32_t value TUTTI_SITE)
    TUTTI_ASM("multimem.red.release.sys.global.add.u32 [%0], %1;" ::"l"(at), "r"(value)
              : "memory");
/// Adds four floats on all GPUs.
TUTTI_PTX void multimemRedAddF32(float4* at, float4 value TUTTI_SITE)
    TUTTI_ASM("multimem.red.relaxed.sys.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at),
              "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
              : "memory");

}  // namespace tutti::cuda::ptx
