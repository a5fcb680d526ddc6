#pragma once

// How the host cuts attention into blocks of queries, and so the scratch memory that it takes.

#include <algorithm>
#include <cstdint>

#include "parallel/tensor/tensor.h"

namespace tutti::parallel::host {

/// Of a block: two vectors of float32.
inline constexpr int64_t kQueryRows = 32;

/// Transposed scores of a block of queries.
inline Shape forwardScratch(int64_t queries, int64_t keys) {
  return {keys, std::min(kQueryRows, queries)};
}
/// The same, twice, and once more a number for each query.
inline Shape backwardScratch(int64_t queries, int64_t keys) {
  return forwardScratch(queries, keys);
}

}  // namespace tutti::parallel::host
