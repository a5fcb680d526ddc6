#include "parallel/kernels/host/blas.h"

#include <cblas.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include "parallel/tensor/check.h"

namespace tutti::parallel::host {

namespace {

blasint toBlas(int64_t value) {
  require(value <= std::numeric_limits<blasint>::max(), "a matrix extent of ", value,
          " is more than this BLAS can take");
  return static_cast<blasint>(value);
}

CBLAS_TRANSPOSE toBlas(bool transpose) { return transpose ? CblasTrans : CblasNoTrans; }

void call(const GemmShape& s, Matrix<const float> a, Matrix<const float> b, double beta,
          Matrix<float> c) {
  cblas_sgemm(CblasRowMajor, toBlas(s.transposeA), toBlas(s.transposeB), toBlas(s.m), toBlas(s.n),
              toBlas(s.k), 1.0f, a.data, toBlas(a.stride), b.data, toBlas(b.stride),
              static_cast<float>(beta), c.data, toBlas(c.stride));
}

void call(const GemmShape& s, Matrix<const double> a, Matrix<const double> b, double beta,
          Matrix<double> c) {
  cblas_dgemm(CblasRowMajor, toBlas(s.transposeA), toBlas(s.transposeB), toBlas(s.m), toBlas(s.n),
              toBlas(s.k), 1.0, a.data, toBlas(a.stride), b.data, toBlas(b.stride), beta, c.data,
              toBlas(c.stride));
}

// OpenBLAS's AVX-512 kernels take a small product's operands from where they lie. A larger one's
// they first copy into an order of their own, which is a tenth of the time where the right factor
// fits the second-level cache as it is. Such a product is cut into small ones.
//
// What OpenBLAS holds for small (its sgemm_small_kernel_permit_skylakex.c): m n k at most 10^6, and
// with a transposed right factor m n at most 1200. That is too little, so the right factor is
// transposed first.

constexpr int64_t kSmallProduct = 1'000'000;
// A piece of the right factor has at most so many rows and columns: it stays near the kernel while
// the left factor's rows pass.
constexpr int64_t kPieceSum = 256, kPieceColumns = 128;
constexpr int64_t kRowStep = 12;       // the kernels take rows by 6
constexpr int64_t kInCache = 1 << 18;  // elements of the right factor
/// From so many rows on, transposing the right factor is little of the work.
constexpr int64_t kRowsToTranspose = 32;

bool hasSmallKernels() {
  static const bool result = [] {
    const std::string_view core = openblas_get_corename();
    return core == "SkylakeX" || core == "Cooperlake" || core == "SapphireRapids";
  }();
  return result;
}

/// With several threads OpenBLAS shares out a whole product, but not a small one.
bool worthCutting(const GemmShape& s) {
  return s.k > 0 && s.k * s.n <= kInCache && (!s.transposeB || s.m >= kRowsToTranspose) &&
         hasSmallKernels() && openblas_get_num_threads() == 1;
}

/// b as [k, n], in memory that is good until the thread's next call.
Matrix<const float> transposed(const GemmShape& s, Matrix<const float> b) {
  thread_local std::vector<float> elements;
  elements.resize(std::max(elements.size(), static_cast<size_t>(s.k * s.n)));
  cblas_somatcopy(CblasRowMajor, CblasTrans, toBlas(s.n), toBlas(s.k), 1.0f, b.data,
                  toBlas(b.stride), elements.data(), toBlas(s.n));
  return {elements.data(), s.n};
}

/// b is not transposed, whatever the shape says.
void callInPieces(const GemmShape& s, Matrix<const float> a, Matrix<const float> b, double beta,
                  Matrix<float> c) {
  const int64_t n = std::min(s.n, kPieceColumns), k = std::min(s.k, kPieceSum);
  const int64_t m = kSmallProduct / (n * k) / kRowStep * kRowStep;
  const int64_t aRow = s.transposeA ? 1 : a.stride, aSum = s.transposeA ? a.stride : 1;
  for (int64_t from = 0; from < s.k; from += k)
    for (int64_t row = 0; row < s.m; row += m)
      for (int64_t column = 0; column < s.n; column += n)
        call({.m = std::min(m, s.m - row),
              .n = std::min(n, s.n - column),
              .k = std::min(k, s.k - from),
              .transposeA = s.transposeA},
             {a.data + row * aRow + from * aSum, a.stride},
             {b.data + from * b.stride + column, b.stride}, from == 0 ? beta : 1.0,
             {c.data + row * c.stride + column, c.stride});
}

}  // namespace

template <class T>
void gemm(const GemmShape& shape, Matrix<const T> a, Matrix<const T> b, double beta, Matrix<T> c) {
  if (shape.m == 0 || shape.n == 0) return;
  for (int64_t* stride : {&a.stride, &b.stride, &c.stride}) *stride = std::max<int64_t>(1, *stride);
  if constexpr (sizeof(T) == sizeof(float))
    if (worthCutting(shape))
      return callInPieces(shape, a, shape.transposeB ? transposed(shape, b) : b, beta, c);
  call(shape, a, b, beta, c);
}

template void gemm<float>(const GemmShape&, Matrix<const float>, Matrix<const float>, double,
                          Matrix<float>);
template void gemm<double>(const GemmShape&, Matrix<const double>, Matrix<const double>, double,
                           Matrix<double>);

void setBlasThreads(int threads) { openblas_set_num_threads(std::max(1, threads)); }

}  // namespace tutti::parallel::host
