#include "parallel/kernels/host/blas.h"

#include <cblas.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <vector>

#include "parallel/kernels/host/elementwise.h"
#include "parallel/kernels/host/split_amx.h"
#include "parallel/kernels/host/tiles_avx512.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel::host {

namespace {

blasint toBlas(int64_t value) {
  require(value <= std::numeric_limits<blasint>::max(), "a matrix extent of ", value,
          " is more than this BLAS can take");
  return static_cast<blasint>(value);
}

CBLAS_TRANSPOSE toBlas(bool transpose) { return transpose ? CblasTrans : CblasNoTrans; }

void call(const BlasShape& s, Matrix<const float> a, Matrix<const float> b, double beta,
          Matrix<float> c) {
  cblas_sgemm(CblasRowMajor, toBlas(s.transposeA), toBlas(s.transposeB), toBlas(s.m), toBlas(s.n),
              toBlas(s.k), 1.0f, a.data, toBlas(a.stride), b.data, toBlas(b.stride),
              static_cast<float>(beta), c.data, toBlas(c.stride));
}

void call(const BlasShape& s, Matrix<const double> a, Matrix<const double> b, double beta,
          Matrix<double> c) {
  cblas_dgemm(CblasRowMajor, toBlas(s.transposeA), toBlas(s.transposeB), toBlas(s.m), toBlas(s.n),
              toBlas(s.k), 1.0, a.data, toBlas(a.stride), b.data, toBlas(b.stride), beta, c.data,
              toBlas(c.stride));
}

#ifdef TUTTI_LEAVES_X86

/// With fewer rows, copying a transposed right factor is too much of the work.
constexpr int64_t kRowsToTranspose = 32;

/// With several threads OpenBLAS shares out a product; the tiles are computed by the caller's.
bool forTiles(const BlasShape& s) {
  static const bool able = availableElementwise().sets[0] == &avx512Leaves();
  return able && s.k > 0 && (!s.transposeB || s.m >= kRowsToTranspose) &&
         openblas_get_num_threads() == 1;
}

/// Memory that is good until the thread's next call; begins at a multiple of 64 bytes.
float* scratch(int64_t elements) {
  constexpr size_t kAlignment = 64;
  thread_local std::vector<float> memory;
  size_t space = (static_cast<size_t>(elements) * sizeof(float)) + kAlignment;
  memory.resize(std::max(memory.size(), space / sizeof(float)));
  void* begin = memory.data();
  return static_cast<float*>(
      std::align(kAlignment, static_cast<size_t>(elements) * sizeof(float), begin, space));
}

void multiplyBrain(const BlasShape& s, Matrix<const uint16_t> a, Matrix<const uint16_t> b, bool add,
                   Matrix<float> c) {
  if (splitsProducts())
    multiplyBrainAmx(s, a, b, add, c, scratch(brainAmxScratch(s)));
  else
    multiplyBrainTiles(s, a, b, add, c, scratch(brainTileScratch(s)));
}

/// With fewer k most of a tile's would be padding. Only k decides: so an element's bits still
/// depend on its row and column alone.
constexpr int64_t kLeastToSplit = 24;

std::atomic<bool>& maySplit() {
  static std::atomic<bool> may{true};
  return may;
}

bool splits(const BlasShape& s, Factors factors) {
  return factors == Factors::Any && s.k >= kLeastToSplit && splitsProducts();
}

/// False, and nothing is done, where OpenBLAS is the better choice.
bool multiplied(const BlasShape& s, Matrix<const float> a, Matrix<const float> b, double beta,
                Matrix<float> c, Factors factors, const PartDone& done) {
  if (!forTiles(s)) return false;
  if (splits(s, factors))
    multiplySplit(s, a, b, beta != 0, c, scratch(splitScratch(s)), done);
  else
    multiplyTiles(s, a, b, beta != 0, c, scratch(tileScratch(s)), done);
  return true;
}

#else

void multiplyBrain(const BlasShape&, Matrix<const uint16_t>, Matrix<const uint16_t>, bool,
                   Matrix<float>) {
  ensure(false, "there are no products of bfloat16");
}

bool multiplied(const BlasShape&, Matrix<const float>, Matrix<const float>, double, Matrix<float>,
                Factors, const PartDone&) {
  return false;
}

#endif

/// There are no tiles of float64, which is for checking gradients.
bool multiplied(const BlasShape&, Matrix<const double>, Matrix<const double>, double,
                Matrix<double>, Factors, const PartDone&) {
  return false;
}

/// Nothing to compute but what `beta` leaves of c.
bool isEmpty(const BlasShape& s, double beta) {
  ensure(beta == 0 || beta == 1, "a product is added to ", beta, " times what was there");
  return s.m == 0 || s.n == 0;
}

/// A matrix of one row may have any stride.
template <class... Matrices>
void atLeastOne(Matrices&... matrices) {
  ((matrices.stride = std::max<int64_t>(1, matrices.stride)), ...);
}

}  // namespace

template <class T>
void gemm(const BlasShape& shape, Matrix<const T> a, Matrix<const T> b, double beta, Matrix<T> c,
          Factors factors, const PartDone& done) {
  if (isEmpty(shape, beta)) return;
  atLeastOne(a, b, c);
  if (multiplied(shape, a, b, beta, c, factors, done)) return;
  call(shape, a, b, beta, c);
  if (done.call != nullptr) done.call(done.context, {0, shape.m, 0, shape.n});
}

template void gemm<float>(const BlasShape&, Matrix<const float>, Matrix<const float>, double,
                          Matrix<float>, Factors, const PartDone&);
template void gemm<double>(const BlasShape&, Matrix<const double>, Matrix<const double>, double,
                           Matrix<double>, Factors, const PartDone&);

bool splitsProducts() {
#ifdef TUTTI_LEAVES_X86
  static const bool able = multipliesSplit();
  return able && maySplit();
#else
  return false;
#endif
}

void setSplitProducts(bool may) {
#ifdef TUTTI_LEAVES_X86
  maySplit() = may;
#else
  (void)may;
#endif
}

bool multipliesBrain() {
#ifdef TUTTI_LEAVES_X86
  static const bool able = availableElementwise().sets[0] == &avx512Leaves() &&
                           __builtin_cpu_supports("avx512bf16") != 0;
  return able;
#else
  return false;
#endif
}

bool prefersBrain() {
#ifdef TUTTI_LEAVES_X86
  return multipliesBrain() && (splitsProducts() || __builtin_cpu_is("amd") != 0);
#else
  return false;
#endif
}

void gemmOfBrain(const BlasShape& shape, Matrix<const uint16_t> a, Matrix<const uint16_t> b,
                 double beta, Matrix<float> c) {
  if (isEmpty(shape, beta)) return;
  atLeastOne(a, b, c);
  if (shape.k > 0) return multiplyBrain(shape, a, b, beta != 0, c);
  for (int64_t row = 0; beta == 0 && row < shape.m; ++row)
    std::fill_n(c.data + row * c.stride, shape.n, 0.0F);
}

void setBlasThreads(int threads) { openblas_set_num_threads(std::max(1, threads)); }

}  // namespace tutti::parallel::host
