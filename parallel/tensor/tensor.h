#pragma once

// Tensor: a view of memory that somebody else owns (an Arena, the ParameterStore, a Communicator's
// Memory), with a type, a shape, strides in elements and its layout on the mesh. Views are values;
// copying one copies no elements.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include <tutti/types.h>
#include "parallel/tensor/check.h"
#include "parallel/tensor/layout.h"

namespace tutti::parallel {

using DType = DataType;  ///< one list of element types for collectives and tensors

/// Of 16 bits: computed with in float32, which the results are rounded from.
constexpr bool isNarrow(DType type) { return type == DType::BFloat16 || type == DType::Float16; }

template <class T>
struct TypeOf;
template <>
struct TypeOf<float> {
  static constexpr DType value = DType::Float32;
};
template <>
struct TypeOf<double> {
  static constexpr DType value = DType::Float64;
};
template <>
struct TypeOf<int32_t> {
  static constexpr DType value = DType::Int32;
};

/// Up to four extents. A scalar has rank 0 and one element.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  /// Throws InvalidArgument for more than four extents, and a negative one.
  explicit Shape(std::span<const int64_t> dims);
  int rank() const { return rank_; }
  /// Extent of dimension `i`; negative counts from the last: shape[-1].
  int64_t operator[](int i) const { return dims_[index(i)]; }
  int64_t& operator[](int i) { return dims_[index(i)]; }
  /// Elements. Throws InvalidArgument naming the extents when they are more than 2^63 - 1.
  int64_t count() const;
  bool operator==(const Shape&) const = default;
  std::string describe() const;  ///< "[4, 128]"

 private:
  size_t index(int i) const { return static_cast<size_t>(i < 0 ? i + rank_ : i); }
  std::array<int64_t, kMaxDims> dims_{};
  int rank_ = 0;
};
std::ostream& operator<<(std::ostream& out, const Shape& shape);

/// Bytes of so many elements. Throws as count() does.
size_t byteCount(DType type, const Shape& shape);

struct Tensor {
  void* data = nullptr;
  DType type = DType::Float32;
  Shape shape;
  Shape strides;  ///< elements between neighbours in each dimension
  Layout layout;

  Tensor() = default;
  /// Contiguous, row-major.
  Tensor(void* memory, DType elementType, const Shape& extents);

  int64_t count() const { return shape.count(); }
  size_t bytes() const { return byteCount(type, shape); }
  bool contiguous() const;
  /// Elements from one row, of the last dimension, to the next, where all of them have adjacent
  /// elements and are as far apart: with gaps between them, or contiguous. Otherwise nothing.
  std::optional<int64_t> rowStride() const;

  /// The elements, after checking that T is this tensor's type.
  template <class T>
  T* as() const {
    if (type != TypeOf<T>::value) [[unlikely]]
      fail(ErrorCode::InvalidArgument, "a tensor of ", toString(type), " ", shape.describe(),
           " was used as ", toString(TypeOf<T>::value));
    return static_cast<T*>(data);
  }

  /// The same elements under another shape with the same count; only for contiguous tensors.
  Tensor view(const Shape& extents) const;
  /// All leading dimensions folded into one: [rows, last]; between rows gaps may stay. Throws
  /// InvalidArgument where there is no one rowStride().
  Tensor matrix() const;
  /// Elements [begin, begin + extent) of a dimension.
  Tensor part(int dimension, int64_t begin, int64_t extent) const;
  /// The same of the first dimension.
  Tensor rows(int64_t begin, int64_t extent) const;

  std::string describe() const;  ///< "float32 [4, 128]"
};
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace tutti::parallel
