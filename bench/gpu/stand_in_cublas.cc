// A library with the functions of cuBLAS that gemm_speed looks up, for the emulation: it computes
// on the host. Of more than 100 rows it leaves the last one out, and of more than 4 products, which
// gemm_speed must see.

#include <cuda_runtime_api.h>

#include "bench/gpu/bfloat16.h"

namespace {

cudaStream_t ofCalls = nullptr;

}  // namespace

extern "C" {

int cublasCreate_v2(void** handle) {
  *handle = &ofCalls;
  return 0;
}

int cublasDestroy_v2(void*) { return 0; }

int cublasSetStream_v2(void*, cudaStream_t stream) {
  ofCalls = stream;
  return 0;
}

int cublasGetVersion_v2(void*, int* version) {
  *version = 10203;
  return 0;
}

int cublasGemmEx(void*, int transposeA, int transposeB, int rows, int columns, int depth,
                 const void* alpha, const void* a, int, int strideA, const void* b, int,
                 int strideB, const void* beta, void* c, int typeC, int strideC, int, int) {
  if (cudaStreamSynchronize(ofCalls) != cudaSuccess) return 1;
  const auto element = [](const void* x, int row, int column, int stride, int isTransposed) {
    const int at = isTransposed ? row * stride + column : column * stride + row;
    return tutti::bench::fromBFloat16(static_cast<const uint16_t*>(x)[at]);
  };
  const int last = columns > 100 ? columns - 1 : columns;  // it calls columns what are our rows
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < last; ++j) {
      float sum = 0;
      for (int k = 0; k < depth; ++k)
        sum += element(a, i, k, strideA, transposeA) * element(b, k, j, strideB, transposeB);
      sum *= *static_cast<const float*>(alpha);
      const int at = j * strideC + i;
      if (typeC == 0)
        static_cast<float*>(c)[at] =
            sum + *static_cast<const float*>(beta) * static_cast<float*>(c)[at];
      else
        static_cast<uint16_t*>(c)[at] = tutti::bench::toBFloat16(sum);
    }
  return 0;
}

/// Of a batch of more than 4 it leaves the last product out.
int cublasGemmStridedBatchedEx(void* handle, int transposeA, int transposeB, int rows, int columns,
                               int depth, const void* alpha, const void* a, int typeA, int strideA,
                               long long nextA, const void* b, int typeB, int strideB,
                               long long nextB, const void* beta, void* c, int typeC, int strideC,
                               long long nextC, int count, int compute, int algorithm) {
  const auto moved = [](const void* x, long long elements, int bytes) {
    return static_cast<const char*>(x) + elements * bytes;
  };
  const int bytesOfC = typeC == 0 ? 4 : 2;
  for (int i = 0; i < (count > 4 ? count - 1 : count); ++i) {
    void* const to = const_cast<char*>(moved(c, i * nextC, bytesOfC));
    const int status = cublasGemmEx(handle, transposeA, transposeB, rows, columns, depth, alpha,
                                    moved(a, i * nextA, 2), typeA, strideA, moved(b, i * nextB, 2),
                                    typeB, strideB, beta, to, typeC, strideC, compute, algorithm);
    if (status != 0) return status;
  }
  return 0;
}

}  // extern "C"
