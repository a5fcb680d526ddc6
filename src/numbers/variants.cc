#include "src/numbers/variants.h"

#include <array>

namespace tutti::numbers {
namespace {

struct Available {
  std::array<Variant, 3> list;
  size_t count = 0;
  void add(const char* name, const Kernels* kernels) { list[count++] = {name, kernels}; }
};

Available findVariants() {
  Available found;
  found.add("baseline", baselineKernels());
#if defined(TUTTI_NUMBERS_AVX2)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c"))
    found.add("avx2", avx2Kernels());
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
