#include "src/numbers/variants.h"

#include <array>

#if defined(TUTTI_NUMBERS_AVX2)
#include <cpuid.h>
#endif

namespace tutti::numbers {
namespace {

struct Available {
  std::array<Variant, 3> list;
  size_t count = 0;
  void add(const char* name, const FoldKernels* kernels) { list[count++] = {name, kernels}; }
};

#if defined(TUTTI_NUMBERS_AVX2)
/// Clang 14's __builtin_cpu_supports does not know the name. CPUID leaf 1, ECX bit 29.
bool hasF16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c >> 29 & 1) != 0;
}
#endif

Available findVariants() {
  Available found;
  found.add("baseline", baselineKernels());
#if defined(TUTTI_NUMBERS_AVX2)
  if (__builtin_cpu_supports("avx2") && hasF16c()) found.add("avx2", avx2Kernels());
#endif
#if defined(TUTTI_NUMBERS_AVX512)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    found.add("avx512", avx512Kernels());
#endif
  return found;
}

}  // namespace

std::span<const Variant> variants() {
  static const Available available = findVariants();
  return {available.list.data(), available.count};
}

}  // namespace tutti::numbers
