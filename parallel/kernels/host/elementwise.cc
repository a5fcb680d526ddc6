#include "parallel/kernels/host/elementwise.h"

namespace tutti::parallel::host {

ElementwiseSets availableElementwise() {
  ElementwiseSets result;
#ifdef TUTTI_LEAVES_X86
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx512) result.sets[result.count++] = &avx512Leaves();
  if (avx2) result.sets[result.count++] = &avx2Leaves();
#endif
  result.sets[result.count++] = &baselineElementwise();
  return result;
}

}  // namespace tutti::parallel::host
