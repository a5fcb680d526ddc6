#pragma once

// The fold of the other CUDA executor (src/executor/kernel/fold_device.cuh) as a kernel of its own:
// all threads of the grid are its team, and operands are memory, slots included.
//
// Bound: the memory's bandwidth, sources plus targets over NVLink or HBM.

#include "src/executor/copy/kernels.h"
#include "src/executor/kernel/fold_device.cuh"

namespace tutti::executor::copy {

struct Team {
  uint32_t thread, all;
  TUTTI_DEVICE uint32_t threads() const { return all; }
};

/// Blocks of kFoldThreads; any number of them.
template <int kSize>
__global__ void __launch_bounds__(kFoldThreads, 1)
    foldPiece(const __grid_constant__ FoldArguments fold) {
  Team team{blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x};
  const double scalar =
      fold.scalarAt ? kernel::scalarAt<kSize>(fold.scalarAt, fold.type) : fold.scalar;
  const kernel::Chunk chunk{fold.operands,    fold.operands + fold.sources,
                            fold.sources,     fold.targets,
                            fold.bytes,       fold.type,
                            fold.op,          fold.isAligned != 0,
                            fold.isTree != 0, fold.isRounded != 0,
                            fold.divideBy,    &scalar};
  kernel::foldChunk<kernel::Wire::Simple, kSize>(team, chunk);
}

}  // namespace tutti::executor::copy
