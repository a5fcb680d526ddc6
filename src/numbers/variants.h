#pragma once

// The kernel tables that this build has and this CPU runs. fold() uses the last one; the tests and
// the benchmark run all of them.

#include <span>

#include "src/numbers/fold.h"
#include "src/numbers/kernels.h"

namespace tutti::numbers {

struct Variant {
  const char* name;  ///< "baseline", "avx2", "avx512"
  const FoldKernels* kernels;
};

/// At least one, the widest last.
std::span<const Variant> variants();

/// fold() with the given kernels.
void foldWith(const FoldKernels& kernels, const FoldRequest& request);

}  // namespace tutti::numbers
