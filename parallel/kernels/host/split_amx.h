#pragma once

// Products of float32 matrices for processors that multiply tiles of bfloat16 (Intel's AMX), which
// do sixteen times as much of that as of float32 in a second. Each float32 is split into the three
// bfloat16 that it is the sum of, so a product is nine products, of which the three least are left
// out: what remains is two to three times as fast as products of float32 are.
//
// Error: of a factor x the pieces are x1, x2 with |x2| <= 2^-8 |x|, and x3 with |x3| <= 2^-17 |x|,
// so what is left out of a product of two is below 2^-23.9 of it: about what one rounding of
// float32 is. Sums are of float32, and rounded less often than one product after the other.
//
// Range: pieces that are denormal count as 0, so a factor may be off by 2^-126. Of a factor that is
// infinite or beyond 3.39e38, what it is multiplied to is NaN.
//
// Factors that are bfloat16 are one piece each, which takes a sixth of the instructions.

#include "parallel/kernels/host/blas.h"

namespace tutti::parallel::host {

/// Whether the processor has the instructions, and the system grants their registers.
bool multipliesSplit();

/// Elements of scratch memory that multiplySplit() takes for a product of this shape.
int64_t splitScratch(const BlasShape& shape);

/// c = a * b, or c += a * b. An element's bits depend on its row and column of the factors alone.
/// `scratch` begins at a multiple of 64 bytes, and `done` does not use it.
void multiplySplit(const BlasShape& shape, Matrix<const float> a, Matrix<const float> b, bool add,
                   Matrix<float> c, float* scratch, const PartDone& done);

/// The same of bfloat16: products are exact, and each sum is rounded to nearest; denormals count as
/// 0.
int64_t brainAmxScratch(const BlasShape& shape);
void multiplyBrainAmx(const BlasShape& shape, Matrix<const uint16_t> a, Matrix<const uint16_t> b,
                      bool add, Matrix<float> c, float* scratch);

}  // namespace tutti::parallel::host
