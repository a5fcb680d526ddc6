#pragma once

/// \file
/// wgmma (sm_90a): the 128 threads of a warpgroup compute d = a b or d += a b asynchronously. d has
/// 64 rows and N columns of floats; N is a multiple of 8 from 8 to 256. a is 64 x K and b is K x N.
/// K is 16 for bf16 and f16, and 8 for tf32. b is in shared memory; a is in shared memory or in
/// registers. With w = warp % 4 and l = lane:
///
///     d[i]   row 16 w + l / 4 + 8 (i / 2 % 2), column 8 (i / 4) + 2 (l % 4) + i % 2
///     a[i]   in registers: the same map with 16 columns, two in a register
///
/// A descriptor names an operand in shared memory. The operand is K-major (contiguous along k) or,
/// for 16-bit types only, MN-major.
///
/// The sequence is: wgmmaFence(), any number of wgmma*() on the same accumulators, wgmmaCommit(),
/// and wgmmaWait<n>(d) before you touch the accumulators.

#include <tutti/cuda/ptx/instruction.cuh>
#include <tutti/cuda/ptx/wgmma_shapes.cuh>

namespace tutti::cuda::ptx {

enum class Major : int { K = 0, Mn = 1 };

/// The swizzle of rows in shared memory, for TMA when it writes and for wgmma when it reads.
enum class Swizzle : int { None = 0, Bytes128 = 1, Bytes64 = 2, Bytes32 = 3 };

/// The descriptor of an operand at `address`. A chunk is 16 bytes. The two distances mean:
///
/// - K-major: strideBytes is the distance of each eight rows to the next eight. Without swizzle,
///   leadingBytes is the distance to the next chunk along k.
/// - MN-major with swizzle: strideBytes is the distance of each eight k to the next eight.
///   leadingBytes is the distance to the next row of the swizzle's width.
/// - MN-major without swizzle: strideBytes is the distance to the next chunk. leadingBytes is the
///   distance to the next eight k.
TUTTI_DEVICE uint64_t wgmmaDescriptor(uint32_t address, uint32_t leadingBytes, uint32_t strideBytes,
                                      Swizzle swizzle) {
  const auto field = [](uint32_t bytes) { return uint64_t((bytes & 0x3ffff) >> 4); };
  return field(address) | field(leadingBytes) << 16 | field(strideBytes) << 32 |
         uint64_t(swizzle) << 62;
}

/// Call it before the first wgmma, and whenever other code has touched the accumulators or the
/// registers of a.
TUTTI_PTX void wgmmaFence(TUTTI_ONLY_SITE) TUTTI_ASM("wgmma.fence.sync.aligned;" ::: "memory");
/// Makes a group of the wgmma operations since the last group.
TUTTI_PTX void wgmmaCommit(TUTTI_ONLY_SITE) TUTTI_ASM("wgmma.commit_group.sync.aligned;" ::
                                                          : "memory");

#ifdef __CUDACC__
template <int kColumns>
struct Wgmma;
#define TUTTI_WGMMA_SHARED(name, shape, type, r, r1, r2, flags)                              \
  TUTTI_DEVICE static void name(float(&d)[r], uint64_t a, uint64_t b, int accumulate) {      \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #r2                                    \
                 ", 0;\n"                                                                    \
                 "wgmma.mma_async.sync.aligned." shape ".f32." type "." type " {" TUTTI_D##r \
                 "}, %" #r ", %" #r1 ", p, 1, 1" flags ";\n}"                                \
                 : TUTTI_F##r                                                                \
                 : "l"(a), "l"(b), "r"(accumulate));                                         \
  }
#define TUTTI_WGMMA_MAJORS(name, shape, type, r, r1, r2)          \
  TUTTI_WGMMA_SHARED(name##KK, shape, type, r, r1, r2, ", 0, 0")  \
  TUTTI_WGMMA_SHARED(name##KMn, shape, type, r, r1, r2, ", 0, 1") \
  TUTTI_WGMMA_SHARED(name##MnK, shape, type, r, r1, r2, ", 1, 0") \
  TUTTI_WGMMA_SHARED(name##MnMn, shape, type, r, r1, r2, ", 1, 1")
#define TUTTI_WGMMA_REGISTERS(name, shape, type, r, r1, r2, r3, r4, r5, flags)                     \
  TUTTI_DEVICE static void name(float(&d)[r], const uint32_t(&a)[4], uint64_t b, int accumulate) { \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #r5                                          \
                 ", 0;\n"                                                                          \
                 "wgmma.mma_async.sync.aligned." shape ".f32." type "." type " {" TUTTI_D##r       \
                 "}, {%" #r ", %" #r1 ", %" #r2 ", %" #r3 "}, %" #r4 ", p, 1, 1" flags ";\n}"      \
                 : TUTTI_F##r                                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));           \
  }
#define TUTTI_WGMMA_SHAPE(n, r, r1, r2, r3, r4, r5, r6)                                  \
  template <>                                                                            \
  struct Wgmma<n> {                                                                      \
    TUTTI_WGMMA_MAJORS(bf16, "m64n" #n "k16", "bf16", r, r1, r2)                         \
    TUTTI_WGMMA_MAJORS(f16, "m64n" #n "k16", "f16", r, r1, r2)                           \
    TUTTI_WGMMA_SHARED(tf32, "m64n" #n "k8", "tf32", r, r1, r2, "")                      \
    TUTTI_WGMMA_REGISTERS(bf16K, "m64n" #n "k16", "bf16", r, r1, r2, r3, r4, r5, ", 0")  \
    TUTTI_WGMMA_REGISTERS(bf16Mn, "m64n" #n "k16", "bf16", r, r1, r2, r3, r4, r5, ", 1") \
    TUTTI_WGMMA_REGISTERS(f16K, "m64n" #n "k16", "f16", r, r1, r2, r3, r4, r5, ", 0")    \
    TUTTI_WGMMA_REGISTERS(f16Mn, "m64n" #n "k16", "f16", r, r1, r2, r3, r4, r5, ", 1")   \
    TUTTI_WGMMA_REGISTERS(tf32, "m64n" #n "k8", "tf32", r, r1, r2, r3, r4, r5, "")       \
  };
TUTTI_WGMMA_SHAPES(TUTTI_WGMMA_SHAPE)
#undef TUTTI_WGMMA_SHARED
#undef TUTTI_WGMMA_MAJORS
#undef TUTTI_WGMMA_REGISTERS
#undef TUTTI_WGMMA_SHAPE
#else
enum class WgmmaType { Bf16, F16, Tf32 };
struct WgmmaIssue {
  float* d;
  int columns;
  WgmmaType type;
  const uint32_t* aRegisters;  // null: a is in shared memory
  uint64_t a, b;
  Major aMajor, bMajor;
  bool accumulate;
};
void wgmmaIssue(const WgmmaIssue& issue, Site site);
void wgmmaWaitAllBut(int groups, Site site);
#endif

// These compute d = a b, or d += a b if `accumulate` is not 0. Template parameters say whether the
// operands are K-major (the default) or MN-major.
#ifdef __CUDACC__
#define TUTTI_WGMMA_16(Name, name)                                                               \
  template <Major kA = Major::K, Major kB = Major::K, int kRegisters>                            \
  TUTTI_DEVICE void wgmma##Name(float(&d)[kRegisters], uint64_t a, uint64_t b, int accumulate) { \
    using Shape = Wgmma<2 * kRegisters>;                                                         \
    if constexpr (kA == Major::K && kB == Major::K)                                              \
      Shape::name##KK(d, a, b, accumulate);                                                      \
    else if constexpr (kA == Major::K)                                                           \
      Shape::name##KMn(d, a, b, accumulate);                                                     \
    else if constexpr (kB == Major::K)                                                           \
      Shape::name##MnK(d, a, b, accumulate);                                                     \
    else                                                                                         \
      Shape::name##MnMn(d, a, b, accumulate);                                                    \
  }                                                                                              \
  template <Major kB = Major::K, int kRegisters>                                                 \
  TUTTI_DEVICE void wgmma##Name(float(&d)[kRegisters], const uint32_t(&a)[4], uint64_t b,        \
                                int accumulate) {                                                \
    if constexpr (kB == Major::K)                                                                \
      Wgmma<2 * kRegisters>::name##K(d, a, b, accumulate);                                       \
    else                                                                                         \
      Wgmma<2 * kRegisters>::name##Mn(d, a, b, accumulate);                                      \
  }
TUTTI_WGMMA_16(Bf16, bf16)
TUTTI_WGMMA_16(F16, f16)
template <int kRegisters>
TUTTI_DEVICE void wgmmaTf32(float (&d)[kRegisters], uint64_t a, uint64_t b, int accumulate) {
  Wgmma<2 * kRegisters>::tf32(d, a, b, accumulate);
}
template <int kRegisters>
TUTTI_DEVICE void wgmmaTf32(float (&d)[kRegisters], const uint32_t (&a)[4], uint64_t b,
                            int accumulate) {
  Wgmma<2 * kRegisters>::tf32(d, a, b, accumulate);
}
#else
#define TUTTI_WGMMA_16(Name)                                                                   \
  template <Major kA = Major::K, Major kB = Major::K, int kRegisters>                          \
  void wgmma##Name(float(&d)[kRegisters], uint64_t a, uint64_t b, int accumulate TUTTI_SITE) { \
    wgmmaIssue({d, 2 * kRegisters, WgmmaType::Name, nullptr, a, b, kA, kB, accumulate != 0},   \
               site);                                                                          \
  }                                                                                            \
  template <Major kB = Major::K, int kRegisters>                                               \
  void wgmma##Name(float(&d)[kRegisters], const uint32_t(&a)[4], uint64_t b,                   \
                   int accumulate TUTTI_SITE) {                                                \
    wgmmaIssue({d, 2 * kRegisters, WgmmaType::Name, a, 0, b, Major::K, kB, accumulate != 0},   \
               site);                                                                          \
  }
TUTTI_WGMMA_16(Bf16)
TUTTI_WGMMA_16(F16)
template <int kRegisters>
void wgmmaTf32(float (&d)[kRegisters], uint64_t a, uint64_t b, int accumulate TUTTI_SITE) {
  wgmmaIssue(
      {d, 2 * kRegisters, WgmmaType::Tf32, nullptr, a, b, Major::K, Major::K, accumulate != 0},
      site);
}
template <int kRegisters>
void wgmmaTf32(float (&d)[kRegisters], const uint32_t (&a)[4], uint64_t b,
               int accumulate TUTTI_SITE) {
  wgmmaIssue({d, 2 * kRegisters, WgmmaType::Tf32, a, 0, b, Major::K, Major::K, accumulate != 0},
             site);
}
#endif
#undef TUTTI_WGMMA_16

/// Waits until all but the `kGroups` newest groups are complete. It takes `d` so that the compiler
/// moves no access to d across the wait. With kGroups 0, d is readable afterwards.
template <int kGroups, int kRegisters>
TUTTI_DEVICE void wgmmaWait(float (&d)[kRegisters] TUTTI_SITE) {
#ifdef __CUDACC__
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) asm volatile("" : "+f"(d[i])::"memory");
#else
  static_cast<void>(d);
  wgmmaWaitAllBut(kGroups, site);
#endif
}

}  // namespace tutti::cuda::ptx
