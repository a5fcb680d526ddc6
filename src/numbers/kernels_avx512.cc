#define TUTTI_VARIANT avx512
#include "src/numbers/kernels.inl"

namespace tutti::numbers {
const FoldKernels* avx512Kernels() { return &avx512::kKernels; }
}  // namespace tutti::numbers
