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
  int32_t boxRows, boxColumns;
  auto operator<=>(const MappedMatrix&) const = default;
};

/// Whether TMA addresses it: its rows begin at multiples of 16 bytes.
bool isMappable(const Matrix& matrix);

/// Boxes as a step takes them of an operand: `count` rows of a or columns of b, and kStepDepth.
/// `outers` by `depth` is the whole.
MappedMatrix boxOf(const Matrix& from, bool isKMajor, int64_t outers, int64_t depth, int32_t count);

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
