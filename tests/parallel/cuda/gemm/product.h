#pragma once

// A product on a GPU or on the emulation, with what it should be. Operands lie in memory whose gaps
// are NaN, so that what is read there shows; around c, and between its rows, are bytes that must
// stay.

#include <string>
#include <vector>

#include "parallel/kernels/cuda/gemm/gemms.h"
#include "tests/emulation/device_array.h"
#include "tests/parallel/cuda/formats.h"

namespace tutti::parallel::cuda {

struct ProductCase {
  int32_t rows = 1, columns = 1, depth = 1;
  Format in = Format::BFloat16, out = Format::Float32;
  bool isKMajorA = true, isKMajorB = true, accumulate = false;
  /// Elements before the first of each operand and between its rows, besides what aligns these to
  /// 16 bytes.
  int32_t offsetA = 0, offsetB = 0, offsetC = 0, gapA = 8, gapB = 8, gapC = 4;
  /// Normally distributed numbers; else integers from -4 to 4, of which no sum has an error.
  bool anyNumbers = false;
  std::string forced;  ///< as TUTTI_GEMM
  std::string describe() const;
};

class Product {
 public:
  explicit Product(const ProductCase& from);
  const GemmChoice& choice() const { return choice_; }
  /// Poisons partial sums, computes, and waits.
  void run();
  /// What is wrong with c and the bytes around it, or nothing.
  std::string error() const;
  std::vector<char> bytes() const { return memoryC_.download(); }

 private:
  struct Image {
    std::vector<char> bytes;
    int64_t offset, stride;  ///< elements
    int32_t elementBytes;
  };
  Image imageOf(int32_t rows, int32_t columns, int32_t offset, int32_t gap, Format format,
                char filling) const;
  Image fill(std::vector<double>& values, int32_t rows, int32_t columns, int32_t offset,
             int32_t gap, uint64_t seed) const;
  void compute();

  const ProductCase case_;
  std::vector<double> a_, b_;           ///< [rows, depth], [columns, depth]
  std::vector<double> before_, exact_;  ///< c
  std::vector<double> sizes_;           ///< sums of the sizes of c's products
  Image imageA_, imageB_, imageC_;
  const emulation::DeviceArray<char> memoryA_, memoryB_, memoryC_;
  Gemms gemms_;
  GemmProduct product_;
  GemmChoice choice_;
};

/// Of an element.
int32_t bytesOf(Format format);

}  // namespace tutti::parallel::cuda
