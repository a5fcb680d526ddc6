#include "parallel/kernels/host/tiles_avx512.h"

#define TUTTI_TILES_OF_PAIRS
#include "parallel/kernels/host/tiles.inl"

namespace tutti::parallel::host {

int64_t brainTileScratch(const BlasShape& shape) { return scratchOf(shape); }

void multiplyBrainTiles(const BlasShape& shape, Matrix<const uint16_t> a, Matrix<const uint16_t> b,
                        bool add, Matrix<float> c, float* scratch) {
  multiply(shape, a, b, add, c, scratch, {});
}

}  // namespace tutti::parallel::host
