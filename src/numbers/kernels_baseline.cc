#define TUTTI_VARIANT baseline
#include "src/numbers/kernels.inl"

namespace tutti::numbers {
const FoldKernels* baselineKernels() { return &baseline::kKernels; }
}  // namespace tutti::numbers
