#pragma once

// Conversions, most of two numbers at a time, which land packed, the first in the low part; and
// powers of two.

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
/// Rounded to tf32: 10 bits of mantissa, ties away from zero.
TUTTI_PTX uint32_t roundTf32(float value TUTTI_SITE)
    TUTTI_ASM_TO(uint32_t, "cvt.rna.tf32.f32 %0, %1;"
                 : "=r"(result)
                 : "f"(value));

/// 2^x by the instruction alone, up to two units in the last place from the rounded one: exactly 1
/// at 0, 0 at minus infinity. Unlike exp2f() no result is denormal: those are 0.
TUTTI_PTX float exp2Approximate(float x TUTTI_SITE) TUTTI_ASM_TO(float, "ex2.approx.ftz.f32 %0, %1;"
                                                                 : "=f"(result)
                                                                 : "f"(x));

// fp8 of sm_89: to nearest, beyond the largest finite number that number; and back to two halves.
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
