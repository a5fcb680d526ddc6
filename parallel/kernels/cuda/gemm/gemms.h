#pragma once

// Products by tensor cores, from operands to launches: which kernel, its arguments and its maps. Of
// one GPU, for one thread at a time.

#include <cuda_runtime_api.h>

#include "parallel/kernels/cuda/gemm/choice.h"
#include "parallel/kernels/cuda/gemm/table.h"
#include "parallel/kernels/cuda/maps/tensor_maps.h"

namespace tutti::parallel::cuda {

/// c = a b (+ c), or what an epilogue makes of it. A side is K-major where the depth is adjacent.
struct GemmProduct {
  DeviceMatrix a, b, c;
  int32_t rows, columns, depth;
  bool isKMajorA, isKMajorB, accumulate;
  Epilogue epilogue = {};
  int32_t batch = 1;                           ///< products
  int64_t batchStrideA = 0, batchStrideB = 0;  ///< elements; 0: all products share it
  BatchStrides strides = {};                   ///< of the others
};
/// What a table has it by, if it is a single one.
GemmKey keyOf(const GemmProduct& product);
/// Where its sums go, in any kernel.
GemmOutput outputOf(const GemmProduct& product);

/// Memory of a product besides its operands.
struct GemmScratch {
  float* partial;      ///< as partialSumsOf() says; aligned to 16 bytes
  uint32_t* arrivals;  ///< as arrivalsOf() says; zero, as it is again behind the product
};

class Gemms {
 public:
  Gemms(const GemmChip& chip, const GemmOptions& options) : chip_(chip), options_(options) {}

  /// Reference for what the kernels of this folder do not compute: other types than those of 16
  /// bits, and what has no elements.
  GemmChoice choose(const GemmProduct& product) const;
  /// How many of float32 enqueue() needs.
  static int64_t partialSumsOf(const GemmProduct& product, const GemmChoice& choice);
  /// How many arrivals any product may need.
  static int64_t arrivalsOf(const GemmChip& chip) {
    return int64_t{kArrivalsOfBlock} * chip.processors;
  }
  /// Of a choice that is not Reference. The scratch is used until the stream has done it. Throws as
  /// TensorMaps does.
  cudaError_t enqueue(const GemmProduct& product, const GemmChoice& choice,
                      const GemmScratch& scratch, cudaStream_t stream);

 private:
  WgmmaGemm wgmmaOf(const GemmProduct& product, const GemmChoice& choice, const GemmTiles& tiles,
                    const GemmOutput& out, const GemmScratch& scratch);

  const GemmChip chip_;
  const GemmOptions options_;
  TensorMaps maps_;
};

/// For Queue::start().
struct ChosenGemm {
  Gemms* gemms;
  GemmProduct product;
  GemmChoice choice;
  GemmScratch scratch;
};
inline cudaError_t enqueue(const ChosenGemm& x, cudaStream_t stream) {
  return x.gemms->enqueue(x.product, x.choice, x.scratch, stream);
}

/// Throws Cuda.
GemmChip chipOf(int device);

}  // namespace tutti::parallel::cuda
