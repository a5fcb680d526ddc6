#pragma once

/// \file
/// Matrices in the registers of a warp: ldmatrix, stmatrix (sm_90) and mma.sync. All 32 lanes call
/// them together.
///
/// An 8x8 matrix has 16-bit elements. Lane l holds element (l / 4, 2 (l % 4)) and the next element
/// of the row in one register, the first in the low half. Lane 8 i + r gives the address of row r
/// of matrix i: 16 bytes, at a multiple of 16.

#include <tutti/cuda/ptx/instruction.cuh>

namespace tutti::cuda::ptx {

#define TUTTI_LDMATRIX(trans, Name)                                                         \
  TUTTI_PTX void ldmatrix##Name(uint32_t(&to)[1], uint32_t row TUTTI_SITE)                  \
      TUTTI_ASM("ldmatrix.sync.aligned.m8n8.x1" trans ".shared.b16 {%0}, [%1];"             \
                : "=r"(to[0])                                                               \
                : "r"(row)                                                                  \
                : "memory");                                                                \
  TUTTI_PTX void ldmatrix##Name(uint32_t(&to)[2], uint32_t row TUTTI_SITE)                  \
      TUTTI_ASM("ldmatrix.sync.aligned.m8n8.x2" trans ".shared.b16 {%0, %1}, [%2];"         \
                : "=r"(to[0]), "=r"(to[1])                                                  \
                : "r"(row)                                                                  \
                : "memory");                                                                \
  TUTTI_PTX void ldmatrix##Name(uint32_t(&to)[4], uint32_t row TUTTI_SITE)                  \
      TUTTI_ASM("ldmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 {%0, %1, %2, %3}, [%4];" \
                : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])                        \
                : "r"(row)                                                                  \
                : "memory")

#define TUTTI_STMATRIX(trans, Name)                                                             \
  TUTTI_PTX void stmatrix##Name(uint32_t row, const uint32_t(&from)[1] TUTTI_SITE) TUTTI_ASM(   \
      "stmatrix.sync.aligned.m8n8.x1" trans ".shared.b16 [%0], {%1};" ::"r"(row), "r"(from[0])  \
      : "memory");                                                                              \
  TUTTI_PTX void stmatrix##Name(uint32_t row, const uint32_t(&from)[2] TUTTI_SITE)              \
      TUTTI_ASM("stmatrix.sync.aligned.m8n8.x2" trans ".shared.b16 [%0], {%1, %2};" ::"r"(row), \
                "r"(from[0]), "r"(from[1])                                                      \
                : "memory");                                                                    \
  TUTTI_PTX void stmatrix##Name(uint32_t row, const uint32_t(&from)[4] TUTTI_SITE) TUTTI_ASM(   \
      "stmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),   \
      "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])                                    \
      : "memory")

TUTTI_LDMATRIX("", );
TUTTI_LDMATRIX(".trans", Trans);  // loads the transposed matrices
TUTTI_STMATRIX("", );
TUTTI_STMATRIX(".trans", Trans);

#undef TUTTI_LDMATRIX
#undef TUTTI_STMATRIX

/// d += a b. A register holds two columns of a, or two rows of b. With g = lane / 4 and q = 2 (lane
/// % 4):
///
///     a[i]   row g + 8 (i % 2), columns q + 8 (i / 2) and the next      (16x16, row major)
///     b[i]   column g, rows q + 8 i and the next                        (16x8)
///     d[i]   row g + 8 (i / 2), column q + i % 2                        (16x8)
#define TUTTI_MMA_F32(name, shape, type)                                                     \
  TUTTI_PTX void name(float(&d)[4], const uint32_t(&a)[4], const uint32_t(&b)[2] TUTTI_SITE) \
      TUTTI_ASM("mma.sync.aligned." shape ".row.col.f32." type "." type                      \
                ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"       \
                : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                             \
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

TUTTI_MMA_F32(mmaBf16, "m16n8k16", "bf16");
TUTTI_MMA_F32(mmaF16, "m16n8k16", "f16");
/// d += a b of shape 16x8x8, for floats whose low 13 bits are ignored. d is as above, and:
///
///     a[i]   row g + 8 (i % 2), column lane % 4 + 4 (i / 2)
///     b[i]   row lane % 4 + 4 i, column g
TUTTI_MMA_F32(mmaTf32, "m16n8k8", "tf32");
#undef TUTTI_MMA_F32

/// d += a b with d in halves: d[i] holds row g + 8 i, columns q and the next.
TUTTI_PTX void mmaF16ToF16(uint32_t (&d)[2], const uint32_t (&a)[4],
                           const uint32_t (&b)[2] TUTTI_SITE)
    TUTTI_ASM(
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, "
        "{%6, %7}, {%0, %1};"
        : "+r"(d[0]), "+r"(d[1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));

}  // namespace tutti::cuda::ptx
