#pragma once

// Which keys a query sees, and which queries see a key: a range, whose ends do not fall from one
// row to the next.

#include "parallel/kernels/cuda/elements_device.cuh"
#include "parallel/kernels/cuda/launches.h"

namespace tutti::parallel::cuda {

/// Rows [from, to).
struct RowRange {
  int32_t from, to;
};

TUTTI_DEVICE int64_t placeOf(const HeadScalars& x, int32_t batch, int32_t head, int32_t row) {
  return batch * x.batchStride + head * x.headStride + row;
}

/// The nearest number of [0, most].
TUTTI_DEVICE int32_t clamped(int64_t number, int32_t most) {
  return number < 0 ? 0 : number > most ? most : int32_t(number);
}

/// How many documents begin at a position or before it.
TUTTI_DEVICE int32_t startedBy(const AttentionReaches& reach, int32_t batch, int64_t position) {
  const int32_t* const starts = reach.starts + batch * reach.startsStride;
  int32_t low = 0, high = reach.documents;
  while (low < high) {
    const int32_t middle = (low + high) / 2;
    if (starts[middle] <= position)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

TUTTI_DEVICE RowRange keysSeen(const AttentionSizes& sizes, int32_t batch, int32_t query) {
  const AttentionReaches& reach = sizes.reach;
  const int64_t position = sizes.firstQuery + query;
  int64_t from = reach.window > 0 ? position - reach.window + 1 : 0;
  if (reach.documents > 0) {
    const int32_t started = startedBy(reach, batch, position);
    if (started > 0)
      from = max(from, int64_t(reach.starts[batch * reach.startsStride + started - 1]));
  }
  return {clamped(from - sizes.firstKey, sizes.keys),
          clamped(position + 1 - sizes.firstKey, sizes.keys)};
}

TUTTI_DEVICE RowRange queriesSeeing(const AttentionSizes& sizes, int32_t batch, int32_t key) {
  const AttentionReaches& reach = sizes.reach;
  const int64_t position = sizes.firstKey + key;
  int64_t to = sizes.firstQuery + sizes.queries;
  if (reach.window > 0) to = min(to, position + reach.window);
  if (reach.documents > 0) {
    const int32_t started = startedBy(reach, batch, position);
    if (started < reach.documents)
      to = min(to, int64_t(reach.starts[batch * reach.startsStride + started]));
  }
  return {clamped(position - sizes.firstQuery, sizes.queries),
          clamped(to - sizes.firstQuery, sizes.queries)};
}

}  // namespace tutti::parallel::cuda
