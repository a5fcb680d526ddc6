#include "bench/training/peaks.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstring>

#include "commands.h"

namespace tutti::bench {

namespace {

constexpr int kIterations = 200'000;
// Independent sums: more than the instruction's latency times the number begun in a cycle.
constexpr int kSums = 12;

#if defined(__x86_64__)
#define TUTTI_REGISTER "+v"
#elif defined(__aarch64__)
#define TUTTI_REGISTER "+w"
#else
#define TUTTI_REGISTER "+m"
#endif

/// A function that returns the operations that it has made. The compiler knows nothing of the sums
/// between two rounds, so that it cannot make one multiplication of many, or none.
#define TUTTI_MULTIPLY_AND_ADD(name, options, Vector, splat, fused)    \
  __attribute__((target(options), optimize("O3"))) double name() {     \
    const Vector factor = splat(0.999F), term = splat(1e-3F);          \
    Vector sums[kSums];                                                \
    _Pragma("GCC unroll 12") for (Vector & sum : sums) sum = term;     \
    for (int i = 0; i < kIterations; ++i) {                            \
      _Pragma("GCC unroll 12") for (Vector & sum : sums) {             \
        sum = fused(sum, factor, term);                                \
        asm volatile("" : TUTTI_REGISTER(sum));                        \
      }                                                                \
    }                                                                  \
    return 2.0 * kIterations * kSums * sizeof(Vector) / sizeof(float); \
  }

#if defined(__x86_64__)
TUTTI_MULTIPLY_AND_ADD(of16Lanes, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps)
TUTTI_MULTIPLY_AND_ADD(of8Lanes, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps)
#endif
#undef TUTTI_MULTIPLY_AND_ADD

/// Of processors that have neither, one operation after the other.
double ofOneLane() {
  float sum = 1;
  for (int i = 0; i < kIterations; ++i) {
    sum = sum * 0.999F + 1e-3F;
    asm volatile("" : TUTTI_REGISTER(sum));
  }
  return 2.0 * kIterations;
}

double operations() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return of16Lanes();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return of8Lanes();
#endif
  return ofOneLane();
}

}  // namespace

double Peaks::flops() const {
  const double begin = now_ns();
  const double made = operations();
  return made / (now_ns() - begin) * 1e9;
}

double Peaks::copied() {
  const double begin = now_ns();
  std::memcpy(to_.data(), from_.data(), from_.size());
  asm volatile("" ::"r"(to_.data()) : "memory");
  return 2.0 * static_cast<double>(from_.size()) / (now_ns() - begin) * 1e9;
}

}  // namespace tutti::bench
