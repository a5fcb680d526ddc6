#pragma once

// Products of float32 matrices for processors with AVX-512, of any size. OpenBLAS does not know
// processors that are newer than itself and then computes with SSE: Debian 12's needs five times as
// long on an Intel processor of 2023.

#include "parallel/kernels/host/blas.h"

namespace tutti::parallel::host {

/// Elements of scratch memory that multiplyTiles() takes for a product of this shape.
int64_t tileScratch(const BlasShape& shape);

/// c = a * b, or c += a * b. An element's bits depend on its row and column of the factors alone:
/// they are those of one sum in order of k. `scratch` begins at a multiple of 64 bytes.
void multiplyTiles(const BlasShape& shape, Matrix<const float> a, Matrix<const float> b, bool add,
                   Matrix<float> c, float* scratch);

}  // namespace tutti::parallel::host
