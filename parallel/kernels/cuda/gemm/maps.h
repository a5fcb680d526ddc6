#pragma once

// Tensor maps of operands for TMA: encoded once for a matrix and a box, and kept.

#include <cuda.h>

#include <compare>
#include <cstdint>
#include <map>

#include "parallel/kernels/cuda/elements.h"

namespace tutti::parallel::cuda {

/// A matrix of 16-bit elements, rows of adjacent elements, and the box that one copy takes of it.
struct MappedMatrix {
  void* data;
  Format format;
  int64_t rows, columns, stride;  ///< elements
  int64_t batch, batchStride;     ///< matrices, and elements from one to the next
  int32_t boxRows, boxColumns;
  auto operator<=>(const MappedMatrix&) const = default;
};

/// Whether TMA addresses it: its rows begin at multiples of 16 bytes, and those of the next matrix
/// of a batch a number of rows behind it.
bool isMappable(const Matrix& matrix, int64_t batchStride);

/// Boxes as a step takes them of an operand: `count` rows of a or columns of b, and kStepDepth.
/// `outers` by `depth` is the whole.
/// There are `batch` of them, or one that is shared where they are 0 apart.
struct MappedBatch {
  int64_t count, stride;
};
MappedMatrix boxOf(const Matrix& from, const MappedBatch& batch, bool isKMajor, int64_t outers,
                   int64_t depth, int32_t count);

/// Looks for the driver's function when it is first needed.
class TensorMaps {
 public:
  /// Throws Unsupported where the driver has no tensor maps, Cuda where it refuses one.
  CUtensorMap of(const MappedMatrix& matrix);

 private:
  std::map<MappedMatrix, CUtensorMap> kept_;
  void* encode_ = nullptr;
};

}  // namespace tutti::parallel::cuda
