#pragma once

// Products of matrices, and the one place that knows BLAS. Row-major, column-adjacent; leading
// dimensions are row strides.

#include <cstdint>

namespace tutti::parallel::host {

template <class T>
struct Matrix {
  T* data;
  int64_t stride;  ///< elements from one row to the next
};

struct BlasShape {
  int64_t m, n, k;  ///< of the product: c is [m, n]
  bool transposeA = false, transposeB = false;
};

/// c = a * b + beta * c, with beta 0 or 1. With 0, c's old contents do not matter, not even NaN.
template <class T>
void gemm(const BlasShape& shape, Matrix<const T> a, Matrix<const T> b, double beta, Matrix<T> c);

/// Threads that one GEMM may use, for the whole process. The result's bits depend on it.
void setBlasThreads(int threads);

}  // namespace tutti::parallel::host
