#pragma once

// The order in which a rank adds up its micro-batches' gradients. In deterministic mode it is the
// balanced binary tree over the micro-batches, whose upper levels are the AllReduce over ranks:
// with 4 micro-batches on 1, 2 and 4 ranks,
//
//   1 rank    ((0+1)+(2+3))          2 ranks   (0+1) + (2+3)          4 ranks   ((0)+(1))+((2)+(3))
//
// are one and the same expression. Micro-batch k is written to level popcount(k), and then each
// trailing one bit of k merges the topmost level into the one below: a binary counter. At most
// log2(n) + 1 levels are alive.

#include <bit>
#include <cstdint>

namespace tutti::parallel {

struct GradientTreePlace {
  int level;   ///< where this micro-batch's gradient is written
  int merges;  ///< afterwards: add level to level - 1, that to level - 2, ... this many times
};

inline GradientTreePlace treePlace(int microBatch) {
  const auto k = static_cast<uint32_t>(microBatch);
  return {std::popcount(k), std::countr_one(k)};
}

/// Levels needed for `microBatches`, a power of two.
inline int treeLevels(int microBatches) {
  return std::bit_width(static_cast<uint32_t>(microBatches));
}

}  // namespace tutti::parallel
