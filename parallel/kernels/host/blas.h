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

/// Few: products are so small, or so many of one factor, that splitting it would take longer.
enum class Factors { Any, Few };

/// Of a product, the rows from `row` and the columns from `column` on.
struct ProductPart {
  int64_t row, rows, column, columns;
};
/// Called for each part of a product when it is done, and may still be in a cache; nobody, unless
/// `call` is set. Parts do not overlap, and are all of the product.
struct PartDone {
  void (*call)(void* context, const ProductPart& part) = nullptr;
  void* context = nullptr;
};

/// c = a * b + beta * c, with beta 0 or 1. With 0, c's old contents do not matter, not even NaN.
template <class T>
void gemm(const BlasShape& shape, Matrix<const T> a, Matrix<const T> b, double beta, Matrix<T> c,
          Factors factors = Factors::Any, const PartDone& done = {});

/// Whether products are computed by AMX (split_amx.h), where the processor has it: those of
/// bfloat16 as they are, and those of float32 split into three bfloat16 each.
bool splitsProducts();
/// For the whole process; true unless it is called. Bits of results depend on it.
void setSplitProducts(bool may);

/// Whether this processor has instructions for products of bfloat16 (AVX512_BF16), and so
/// gemmOfBrain() may be called.
bool multipliesBrain();
/// Whether products of bfloat16 take less time than those of what is widened to float32: by AMX, or
/// on AMD, whose processors begin an instruction of AVX512_BF16 in each cycle. On Intel's of 2023
/// these do half as much as those of float32.
bool prefersBrain();
/// The same as gemm(), of bfloat16 that is not widened; sums are float32. The caller's thread alone
/// computes.
void gemmOfBrain(const BlasShape& shape, Matrix<const uint16_t> a, Matrix<const uint16_t> b,
                 double beta, Matrix<float> c);

/// Threads that one GEMM may use, for the whole process. The result's bits depend on it.
void setBlasThreads(int threads);

}  // namespace tutti::parallel::host
