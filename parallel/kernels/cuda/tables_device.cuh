#pragma once

// Which tensors of a table a block has, by bisection: the table lies in the cache of constants,
// where all threads read one address at a time.

#include "parallel/kernels/cuda/elements_device.cuh"
#include "parallel/kernels/cuda/tables.h"

namespace tutti::parallel::cuda {

/// The last entry that begins at this block, or before it.
template <int kOperands>
TUTTI_DEVICE const typename TensorTable<kOperands>::Entry& entryOfBlock(
    const TensorTable<kOperands>& table) {
  uint32_t first = 0, end = table.count;
  while (end - first > 1) {
    const uint32_t middle = (first + end) / 2;
    if (table.entries[middle].firstBlock <= blockIdx.x)
      first = middle;
    else
      end = middle;
  }
  return table.entries[first];
}

/// Of the entry's elements the first of this block, where a block has so many.
template <class Entry>
TUTTI_DEVICE int64_t firstOfBlock(const Entry& entry, int64_t elementsOfBlock) {
  return (blockIdx.x - entry.firstBlock) * elementsOfBlock;
}

}  // namespace tutti::parallel::cuda
