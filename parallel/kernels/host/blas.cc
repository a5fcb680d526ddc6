#include "parallel/kernels/host/blas.h"

#include <cblas.h>

#include <algorithm>
#include <limits>

#include "parallel/tensor/check.h"

namespace tutti::parallel::host {

namespace {

blasint toBlas(int64_t value) {
  require(value <= std::numeric_limits<blasint>::max(), "a matrix extent of ", value,
          " is more than this BLAS can take");
  return static_cast<blasint>(value);
}

CBLAS_TRANSPOSE toBlas(bool transpose) { return transpose ? CblasTrans : CblasNoTrans; }

void call(const GemmShape& s, const float* a, blasint lda, const float* b, blasint ldb, double beta,
          float* c, blasint ldc) {
  cblas_sgemm(CblasRowMajor, toBlas(s.transposeA), toBlas(s.transposeB), toBlas(s.m), toBlas(s.n),
              toBlas(s.k), 1.0f, a, lda, b, ldb, static_cast<float>(beta), c, ldc);
}

void call(const GemmShape& s, const double* a, blasint lda, const double* b, blasint ldb,
          double beta, double* c, blasint ldc) {
  cblas_dgemm(CblasRowMajor, toBlas(s.transposeA), toBlas(s.transposeB), toBlas(s.m), toBlas(s.n),
              toBlas(s.k), 1.0, a, lda, b, ldb, beta, c, ldc);
}

}  // namespace

template <class T>
void gemm(const GemmShape& shape, Matrix<const T> a, Matrix<const T> b, double beta, Matrix<T> c) {
  if (shape.m == 0 || shape.n == 0) return;
  const auto stride = [](int64_t elements) { return toBlas(std::max<int64_t>(1, elements)); };
  call(shape, a.data, stride(a.stride), b.data, stride(b.stride), beta, c.data, stride(c.stride));
}

template void gemm<float>(const GemmShape&, Matrix<const float>, Matrix<const float>, double,
                          Matrix<float>);
template void gemm<double>(const GemmShape&, Matrix<const double>, Matrix<const double>, double,
                           Matrix<double>);

void setBlasThreads(int threads) { openblas_set_num_threads(std::max(1, threads)); }

}  // namespace tutti::parallel::host
