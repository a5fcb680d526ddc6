#pragma once

// Operands as kernels see them: where elements are, of which type, and how far apart rows. The
// types of one call differ at most as kernels.h says, so a kernel is compiled twice, to compute in
// float32 and in float64, and looks at an operand's type where it loads and stores.

#include <cstdint>

namespace tutti::parallel::cuda {

enum class ElementFormat : int32_t { Float64, Float32, BFloat16, Float16 };
constexpr int64_t bytesOf(ElementFormat format) {
  return format == ElementFormat::Float64 ? 8 : format == ElementFormat::Float32 ? 4 : 2;
}

/// No data: the operand was left out.
struct Elements {
  void* data;
  ElementFormat format;
};

/// A matrix of adjacent columns.
struct DeviceMatrix {
  Elements elements;
  int64_t stride;  ///< elements from one row to the next
};

/// Where the rows of a tensor of up to four dimensions begin: those before the last.
struct RowPlaces {
  int32_t isContiguous;
  int64_t extents[3], strides[3];  ///< of dimensions that are not there 1 and 0, which come first
};

/// What heads have in a tensor [batch, rows, heads * head width].
struct HeadRows {
  Elements elements;
  int64_t batchStride, rowStride;
};
/// A number for each row of each head: [batch, heads, rows].
struct HeadScalars {
  Elements elements;
  int64_t batchStride, headStride;
};

}  // namespace tutti::parallel::cuda
