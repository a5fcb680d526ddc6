#pragma once

// cuBLAS, where there is one when the program runs: of the CUDA toolkit, of a wheel that PyTorch
// came with, or wherever the loader looks. Nothing is linked with it, and no header of it is
// needed.

#include <memory>
#include <string>

#include "parallel/kernels/kernels.h"

struct CUstream_st;

namespace tutti::bench {

class Cublas {
 public:
  /// The library of that file, or if it is empty the one that the loader finds. Throws Unsupported
  /// where there is none.
  Cublas(const std::string& file, CUstream_st* stream);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  /// The product without an epilogue, or a batch of products with operands of their own, on the
  /// stream: a and b of bfloat16, c of that or float32; sums are in float32.
  void gemm(const parallel::GemmArgs& args);
  std::string version() const;

 private:
  struct Functions;
  std::unique_ptr<Functions> functions_;
  void* library_ = nullptr;
  void* handle_ = nullptr;
};

}  // namespace tutti::bench
