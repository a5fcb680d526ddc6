#define TUTTI_VARIANT avx2
#include "src/numbers/kernels.inl"

namespace tutti::numbers {
const FoldKernels* avx2Kernels() { return &avx2::kKernels; }
}  // namespace tutti::numbers
