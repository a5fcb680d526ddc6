#include "parallel/tensor/tensor.h"

namespace tutti::parallel {

Shape::Shape(std::span<const int64_t> dims) {
  require(dims.size() <= dims_.size(), "a tensor has at most ", kMaxDims, " dimensions, not ",
          dims.size());
  for (int64_t extent : dims) {
    require(extent >= 0, "an extent cannot be negative: ", extent);
    dims_[static_cast<size_t>(rank_++)] = extent;
  }
}

namespace {

int64_t times(int64_t a, int64_t b, const Shape& shape) {
  int64_t product = 0;
  require(!__builtin_mul_overflow(a, b, &product), "a tensor cannot be as large as ", shape);
  return product;
}

Shape rowMajorStrides(const Shape& shape) {
  Shape strides = shape;
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step = times(step, shape[i], shape);
  }
  return strides;
}

}  // namespace

int64_t Shape::count() const {
  int64_t total = 1;
  for (int i = 0; i < rank_; ++i) total = times(total, (*this)[i], *this);
  return total;
}

size_t byteCount(DType type, const Shape& shape) {
  return static_cast<size_t>(times(shape.count(), static_cast<int64_t>(sizeOf(type)), shape));
}

std::string Shape::describe() const { return message(*this); }

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << "[";
  for (int i = 0; i < shape.rank(); ++i) out << (i > 0 ? ", " : "") << shape[i];
  return out << "]";
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << toString(tensor.type) << " " << tensor.shape;
}

Tensor::Tensor(void* memory, DType elementType, const Shape& extents)
    : data(memory), type(elementType), shape(extents), strides(rowMajorStrides(extents)) {}

bool Tensor::contiguous() const {
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (strides[i] != step) return false;
    step = times(step, shape[i], shape);
  }
  return true;
}

// Dimensions of one element are apart by nothing.
std::optional<int64_t> Tensor::rowStride() const {
  if (contiguous()) return shape.rank() == 0 ? 1 : shape[-1];
  if (shape.rank() < 2 || strides[-1] != 1) return std::nullopt;
  std::optional<int64_t> stride;
  int64_t next = 0;
  for (int i = shape.rank() - 2; i >= 0; --i) {
    if (shape[i] == 1) continue;
    if (stride && strides[i] != next) return std::nullopt;
    if (!stride) stride = strides[i];
    next = times(strides[i], shape[i], shape);
  }
  if (!stride) return shape[-1];  // one row
  if (*stride < shape[-1]) return std::nullopt;
  return stride;
}

Tensor Tensor::view(const Shape& extents) const {
  require(contiguous(), "only a contiguous tensor can be viewed under another shape: ", *this);
  require(extents.count() == count(), "cannot view ", *this, " as ", extents);
  Tensor result(data, type, extents);
  if (!layout.replicated()) result.layout.partial = layout.partial;
  return result;
}

Tensor Tensor::matrix() const {
  require(shape.rank() >= 1, "a scalar has no rows");
  if (shape.rank() == 2) return *this;
  Shape rows = shape;
  rows[-1] = 1;  // also of rows that are empty
  const Shape folded{rows.count(), shape[-1]};
  const std::optional<int64_t> stride = rowStride();
  if (!stride || contiguous()) return view(folded);
  Tensor result(data, type, folded);
  result.strides[0] = *stride;
  if (!layout.replicated()) result.layout.partial = layout.partial;
  return result;
}

Tensor Tensor::part(int dimension, int64_t begin, int64_t extent) const {
  require(dimension >= 0 && dimension < shape.rank(), *this, " has no dimension ", dimension);
  require(begin >= 0 && extent >= 0 && extent <= shape[dimension] - begin, "elements ", begin,
          " to ", begin + extent, " of dimension ", dimension, " are outside ", *this);
  Tensor result = *this;
  result.shape[dimension] = extent;
  result.data =
      static_cast<char*>(data) + static_cast<size_t>(begin * strides[dimension]) * sizeOf(type);
  return result;
}

Tensor Tensor::rows(int64_t begin, int64_t extent) const { return part(0, begin, extent); }

std::string Tensor::describe() const { return message(*this); }

}  // namespace tutti::parallel
