#pragma once

// Tensors with gaps between their rows, row by row.

#include "parallel/tensor/tensor.h"

namespace tutti::parallel::host {

/// Where a row of x, counted over all dimensions but the last, begins: in elements.
inline int64_t rowOffset(const Tensor& x, int64_t row) {
  int64_t offset = 0;
  for (int d = x.shape.rank() - 2; d >= 0; --d) {
    offset += row % x.shape[d] * x.strides[d];
    row /= x.shape[d];
  }
  return offset;
}

/// Calls visit(offset in a, offset in b, elements) for the rows of two tensors of one shape, whose
/// rows are adjacent elements; once for all where both are contiguous.
template <class Visit>
void forEachRow(const Tensor& a, const Tensor& b, Visit visit) {
  const int64_t count = a.count();
  if (count == 0) return;
  if (a.contiguous() && b.contiguous()) return visit(0, 0, count);
  const int64_t width = a.shape[-1];
  for (int64_t row = 0; row < count / width; ++row)
    visit(rowOffset(a, row), rowOffset(b, row), width);
}

}  // namespace tutti::parallel::host
