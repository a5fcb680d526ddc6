#pragma once

// Tensor maps of operands for TMA: encoded once for a tensor and a box, and kept.

#include <cuda.h>

#include <array>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <map>

#include "parallel/kernels/cuda/elements.h"

namespace tutti::parallel::cuda {

/// A tensor of 16-bit elements, and the box that one copy takes of it. Dimension 0 is the one of
/// adjacent elements; a box's rows along it, of 16, 32 or 64, are swizzled as wide as they are.
struct MappedTensor {
  void* data;
  ElementFormat format;
  std::array<int64_t, 3> size;
  std::array<int64_t, 2> stride;  ///< elements, of dimensions 1 and 2
  std::array<int32_t, 3> box;
  auto operator<=>(const MappedTensor&) const = default;
};

/// Whether TMA addresses elements of 16 bits that begin there, with so many elements from one place
/// of dimension 1 to the next, then of dimension 2: each a multiple of the one before.
bool isMappable(const void* data, std::initializer_list<int64_t> strides);

/// Looks for the driver's function when it is first needed.
class TensorMaps {
 public:
  /// Throws Unsupported where the driver has no tensor maps, Cuda where it refuses one.
  CUtensorMap of(const MappedTensor& tensor);

 private:
  std::map<MappedTensor, CUtensorMap> kept_;
  void* encode_ = nullptr;
};

}  // namespace tutti::parallel::cuda
