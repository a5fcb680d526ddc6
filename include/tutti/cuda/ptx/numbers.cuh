#pragma once

/// \file
/// Conversions and powers of two. Most conversions take two numbers and pack the results, with the
/// first in the low part.

#include <tutti/cuda/ptx/instruction.cuh>

namespace tutti::cuda::ptx {

TUTTI_PTX uint32_t packBf16(float low, float high TUTTI_SITE)
    TUTTI_ASM_TO(uint32_t, "cvt.rn.bf16x2.f32 %0, %1, %2;"
                 : "=r"(result)
                 : "f"(high), "f"(low));
TUTTI_PTX uint32_t packF16(float low, float high TUTTI_SITE)
    TUTTI_ASM_TO(uint32_t, "cvt.rn.f16x2.f32 %0, %1, %2;"
                 : "=r"(result)
                 : "f"(high), "f"(low));
TUTTI_PTX float widenF16(uint16_t half TUTTI_SITE) TUTTI_ASM_TO(float, "cvt.f32.f16 %0, %1;"
                                                                : "=f"(result)
                                                                : "h"(half));
/// Rounds to tf32: 10 bits of mantissa, ties away from zero.
TUTTI_PTX uint32_t roundTf32(float value TUTTI_SITE)
    TUTTI_ASM_TO(uint32_t, "cvt.rna.tf32.f32 %0, %1;"
                 : "=r"(result)
                 : "f"(value));

/// 2^x by the instruction alone, at most two units in the last place from the rounded result. It is
/// exactly 1 at 0, and 0 at minus infinity. Unlike with exp2f(), denormal results become 0.
TUTTI_PTX float exp2Approximate(float x TUTTI_SITE) TUTTI_ASM_TO(float, "ex2.approx.ftz.f32 %0, %1;"
                                                                 : "=f"(result)
                                                                 : "f"(x));

// fp8 (sm_89). Packing rounds to nearest; numbers beyond the largest finite one become that number.
// Unpacking gives two halves.
TUTTI_PTX uint16_t packE4m3(float low, float high TUTTI_SITE)
    TUTTI_ASM_TO(uint16_t, "cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
                 : "=h"(result)
                 : "f"(high), "f"(low));
TUTTI_PTX uint32_t unpackE4m3(uint16_t pair TUTTI_SITE)
    TUTTI_ASM_TO(uint32_t, "cvt.rn.f16x2.e4m3x2 %0, %1;"
                 : "=r"(result)
                 : "h"(pair));
TUTTI_PTX uint16_t packE5m2(float low, float high TUTTI_SITE)
    TUTTI_ASM_TO(uint16_t, "cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;"
                 : "=h"(result)
                 : "f"(high), "f"(low));
TUTTI_PTX uint32_t unpackE5m2(uint16_t pair TUTTI_SITE)
    TUTTI_ASM_TO(uint32_t, "cvt.rn.f16x2.e5m2x2 %0, %1;"
                 : "=r"(result)
                 : "h"(pair));

}  // namespace tutti::cuda::ptx
