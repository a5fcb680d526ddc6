#pragma once

// Products of float32 matrices whose right factor stays in the second-level cache, for processors
// with AVX-512. BLAS first copies both factors into an order of its own, which there is a tenth of
// the time; and it does not know that the left factor and the result come from memory.

#include "parallel/kernels/host/blas.h"

namespace tutti::parallel::host {

/// c = a * b, or c += a * b. b is not transposed, whatever the shape says. An element's bits depend
/// on its row and column of the factors and on k alone.
void multiplyTiles(const BlasShape& shape, Matrix<const float> a, Matrix<const float> b, bool add,
                   Matrix<float> c);

/// to [columns, rows] = from [rows, columns], transposed.
void transposeTiles(Matrix<const float> from, int64_t rows, int64_t columns, Matrix<float> to);

}  // namespace tutti::parallel::host
