#pragma once

// Arguments of the tuned GEMM kernels, and for each struct enqueue(), as launches.h has them for
// the others. Both operands are of one format. Sizes are at least 1 and below 2^30.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "parallel/kernels/cuda/epilogue.h"

namespace tutti::parallel::cuda {

/// Of the tiles of all kernels of this folder; and what wgmma.cu sums over at a time.
inline constexpr int32_t kTileRows = 128, kStepDepth = 64;

/// How a product is cut into units, which blocks compute. A unit is a tile, or where a cluster
/// shares columns of b, tiles below each other; of a part of the depth where that is split.
struct GemmTiles {
  int32_t rows, columns;         ///< units below and beside each other
  int32_t group;                 ///< rows of units that are gone through together, column by column
  int32_t steps;                 ///< of the depth
  int32_t splits, stepsOfSplit;  ///< of the depth; no split is empty
  int32_t unitsOfProduct;        ///< of all its splits
  int32_t units;                 ///< of all products of a batch
  /// Stream-K: clusters, of which each has a run of adjacent steps of all units, and how many. 0:
  /// units are dealt out in turn.
  int32_t workers, stepsOfWorker;
};

/// An operand: its rows are a's rows or b's columns (K-major), or the depth.
struct MmaSide {
  const void* data;
  int64_t stride;       ///< elements
  int64_t batchStride;  ///< elements; 0: all products share it
  int32_t outers;       ///< a's rows or b's columns
  int32_t alignment;    ///< of all rows, bytes: that of an element, to 16
  int32_t isKMajor;
};
/// mma.cu. Of float32 it computes in TF32.
struct MmaGemm {
  GemmTiles tiles;
  MmaSide a, b;
  int32_t depth;
  ElementFormat format;
  GemmOutput out;
};
cudaError_t enqueue(const MmaGemm& x, cudaStream_t stream);
cudaError_t loadMma();

/// simt.cu, of float32.
struct SimtGemm : MmaGemm {};
cudaError_t enqueue(const SimtGemm& x, cudaStream_t stream);
cudaError_t loadSimt();

/// Of its warps that multiply.
inline constexpr int32_t kArrivalsOfBlock = 8;

/// How the two warpgroups that multiply share tiles (wgmma_device.cuh).
enum class GemmSchedule : int32_t { Together, InTurn };

/// wgmma.cu. Boxes of the maps are 64 of the depth by kTileRows of a, or by the part of a tile's
/// columns that a block of the cluster loads; of an operand that is not K-major 64 by 64.
struct WgmmaGemm {
  CUtensorMap a, b;
  GemmTiles tiles;
  GemmOutput out;
  /// Of stream-K: sums of units that workers share, two of kTileRows by tileColumns for a block;
  /// and kArrivalsOfBlock numbers for it, which are zero before and behind.
  float* fragments;
  uint32_t* arrivals;
  ElementFormat format;
  int32_t isKMajorA, isKMajorB;
  int32_t isSharedA, isSharedB;  ///< by all products of a batch
  GemmSchedule schedule;
  int32_t tileColumns;  ///< 128 or, together, 64, 192 or 256
  int32_t cluster;      ///< blocks: 1 or, of 128 and 256 columns, 2
  int32_t blocks;       ///< at most as many as the GPU has room for
};
cudaError_t enqueue(const WgmmaGemm& x, cudaStream_t stream);
/// Loads nothing on a GPU that is not of compute capability 9.0.
cudaError_t loadWgmma();

/// splits.cu: the sum over splits, in their order, and then what becomes of it.
struct SumSplits {
  const float* partial;  ///< aligned to 16 bytes, as are its rows
  int64_t stride;        ///< elements from one row to the next
  int64_t splitStride;   ///< from one split to the next
  int64_t batchStride;   ///< from one product to the next
  int32_t splits;
  GemmOutput out;
};
cudaError_t enqueue(const SumSplits& x, cudaStream_t stream);
cudaError_t loadSplits();

}  // namespace tutti::parallel::cuda
