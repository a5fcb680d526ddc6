#pragma once

// A product on a GPU or on the emulation, with what it should be. Operands lie in memory whose gaps
// are NaN, so that what is read there shows; around results, and between their rows, are bytes that
// must stay.

#include <string>
#include <vector>

#include "parallel/kernels/cuda/gemm/gemms.h"
#include "tests/emulation/device_array.h"
#include "tests/parallel/kernels/cuda/formats.h"
#include "tests/parallel/kernels/cuda/gemm/epilogue_reference.h"

namespace tutti::parallel::cuda {

/// An epilogue, whose `inner` and bias are of the operands' type, and the residual of c's, unless
/// they are wide. Rows of its matrices have larger gaps than c's.
struct EpilogueCase {
  Activation activation = Activation::None;
  bool keeps = true;  ///< of Gelu: what was x
  bool bias = false, residual = false;
  double scale = 1;
  int32_t offsetInner = 0, offsetBias = 0, offsetResidual = 0;  ///< as offsetC
  /// Of float32, whatever the operands and c are.
  bool wideInner = false, wideBias = false, wideResidual = false;
  std::string describe() const;
};

struct ProductCase {
  int32_t rows = 1, columns = 1, depth = 1;
  ElementFormat in = ElementFormat::BFloat16, out = ElementFormat::Float32;
  bool isKMajorA = true, isKMajorB = true, accumulate = false;
  /// Elements before the first of each operand and between its rows, besides what aligns these to
  /// 16 bytes.
  int32_t offsetA = 0, offsetB = 0, offsetC = 0, gapA = 8, gapB = 8, gapC = 4;
  /// Normally distributed numbers; else integers from -4 to 4, of which no sum has an error.
  bool anyNumbers = false;
  /// Products, which share a, or b and the bias, or none of these; and elements between the last
  /// row of one's operand and the first of the next one's, besides one row.
  int32_t batch = 1;
  bool sharesA = false, sharesB = false;
  int32_t batchGap = 0;
  EpilogueCase epilogue = {};
  std::string forced;  ///< as TUTTI_GEMM
  std::string describe() const;
};

class Product {
 public:
  explicit Product(const ProductCase& from);
  const GemmChoice& choice() const { return choice_; }
  /// Poisons partial sums, computes, and waits.
  void run();
  /// What is wrong with the results and the bytes around them, or nothing.
  std::string error() const;
  std::vector<char> bytes() const { return c_.memory.download(); }
  /// Without what is around them, row by row.
  std::vector<char> elementsOfC() const;
  /// Of the result, which splits have not.
  OutputWay way() const { return outputOf(product_).way; }

 private:
  /// How matrices lie.
  struct Place {
    int32_t offset, gap;  ///< as in a case
    int32_t count = 1, batchGap = 0;
  };
  /// Matrices in memory, whose rows are counted over all of them.
  struct Image {
    Image(int32_t rows, int32_t columns, const Place& place, ElementFormat format, char filling);
    size_t placeOf(int32_t row, int32_t column) const;  ///< of its first byte
    void set(int32_t row, int32_t column, double value);
    DeviceMatrix matrix(char* memory) const;
    int32_t rowsOfOne, rows, columns;
    int64_t offset, stride, batchStride;  ///< elements
    ElementFormat format;
    std::vector<char> bytes;
  };
  /// An operand, and the numbers that it has.
  struct Operand {
    explicit Operand(const Image& of) : image(of), memory(of.bytes.size()) {}
    void upload() { memory.upload(image.bytes); }
    double at(int32_t row, int32_t column) const {
      return values[static_cast<size_t>(row) * static_cast<size_t>(image.columns) +
                    static_cast<size_t>(column)];
    }
    Image image;
    emulation::DeviceArray<char> memory;
    std::vector<double> values = {};
  };
  struct Result {
    const char* name;
    const Operand& of;
    const std::vector<Near>& expected;
  };
  Operand random(const Image& image, uint64_t seed, bool isRounded) const;
  /// Of one product, [depth, columns].
  std::vector<double> rowsOfB(int32_t product) const;
  void sum();
  void expectEpilogue();
  std::string errorOf(const Result& result) const;
  static constexpr char kCanary = 0x5a, kNaNs = -1;

  Place placeOf(int32_t offset, int32_t gap, bool isShared) const {
    return {offset, gap, isShared ? 1 : case_.batch, case_.batchGap};
  }

  const ProductCase case_;
  const int32_t halves_;  ///< of c
  Operand a_, b_, c_, inner_, bias_, residual_;
  std::vector<Near> sums_;  ///< [rows, columns]
  std::vector<Near> expectedC_, expectedInner_;
  Gemms gemms_;
  emulation::DeviceArray<uint32_t> arrivals_;
  GemmProduct product_;
  GemmChoice choice_;
};

}  // namespace tutti::parallel::cuda
