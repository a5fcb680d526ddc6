#define TUTTI_VARIANT avx2
#include "src/numbers/kernels.inl"

namespace tutti::numbers {
const Kernels* avx2Kernels() { return &avx2::kKernels; }
}  // namespace tutti::numbers
