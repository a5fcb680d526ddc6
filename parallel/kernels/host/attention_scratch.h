#pragma once

// How the host cuts attention into blocks of queries, and so the scratch memory that it takes.

#include <algorithm>
#include <cstdint>

#include "parallel/tensor/tensor.h"

namespace tutti::parallel::host {

// Rows of queries in a block. 32 in backward: OpenBLAS has a fast path for small products with a
// transposed left factor, dQ's, only while the result has at most 1200 elements.
inline constexpr int64_t kQueryRows = 64;
inline constexpr int64_t kBackwardRows = 32;

/// Scores of a block of queries.
inline Shape forwardScratch(int64_t context) { return {std::min(kQueryRows, context), context}; }
/// Transposed scores of a block of queries, twice, and once more a number for each of them.
inline Shape backwardScratch(int64_t context) {
  return {context, std::min(kBackwardRows, context)};
}

}  // namespace tutti::parallel::host
