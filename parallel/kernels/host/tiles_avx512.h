#pragma once

// Products of matrices for processors with AVX-512, of any size: of float32, and of bfloat16 where
// the processor multiplies that (AVX512_BF16). OpenBLAS does not know
// processors that are newer than itself and then computes with SSE: Debian 12's needs five times as
// long on an Intel processor of 2023.

#include "parallel/kernels/host/blas.h"

namespace tutti::parallel::host {

/// Elements of scratch memory that multiplyTiles() takes for a product of this shape.
int64_t tileScratch(const BlasShape& shape);

/// c = a * b, or c += a * b. An element's bits depend on its row and column of the factors alone:
/// they are those of one sum in order of k. `scratch` begins at a multiple of 64 bytes, and `done`
/// does not use it.
void multiplyTiles(const BlasShape& shape, Matrix<const float> a, Matrix<const float> b, bool add,
                   Matrix<float> c, float* scratch, const PartDone& done);

/// The same of bfloat16. Two products are added to a sum after one another, the one of the larger k
/// first, and each time the sum is rounded to nearest; denormals count as 0.
int64_t brainTileScratch(const BlasShape& shape);
void multiplyBrainTiles(const BlasShape& shape, Matrix<const uint16_t> a, Matrix<const uint16_t> b,
                        bool add, Matrix<float> c, float* scratch);

}  // namespace tutti::parallel::host
