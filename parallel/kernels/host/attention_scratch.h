#pragma once

// How the host cuts attention into blocks of queries, and so the scratch memory that it takes.

#include <algorithm>
#include <cstdint>

#include "parallel/tensor/tensor.h"

namespace tutti::parallel::host {

inline constexpr int64_t kWideHead = 64;

/// Queries of a block: vectors of float32. Of each block keys and values are copied again for its
/// products, which takes longer for wide heads; more queries compute more pairs that none sees.
inline int64_t queryRows(int64_t headWidth) { return headWidth >= kWideHead ? 64 : 32; }

/// Transposed scores of a block of queries.
inline Shape forwardScratch(int64_t queries, int64_t keys, int64_t headWidth) {
  return {keys, std::min(queryRows(headWidth), queries)};
}
/// The same, twice, and once more a number for each query.
inline Shape backwardScratch(int64_t queries, int64_t keys, int64_t headWidth) {
  return forwardScratch(queries, keys, headWidth);
}

}  // namespace tutti::parallel::host
