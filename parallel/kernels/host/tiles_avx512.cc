#include "parallel/kernels/host/tiles_avx512.h"

#include "parallel/kernels/host/tiles.inl"

namespace tutti::parallel::host {

int64_t tileScratch(const BlasShape& shape) { return scratchOf(shape); }

void multiplyTiles(const BlasShape& shape, Matrix<const float> a, Matrix<const float> b, bool add,
                   Matrix<float> c, float* scratch, const PartDone& done) {
  multiply(shape, a, b, add, c, scratch, done);
}

}  // namespace tutti::parallel::host
