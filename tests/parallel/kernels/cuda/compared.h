#pragma once

// A GPU's kernels compared with the host's in float64. Both get the same values: those of the GPU's
// operands, which are of the types under test, are exact in float64.
//
// Each call is made twice on the GPU, from the same memory, and must leave the same bits; memory
// before each operand must stay as it was, and behind it is none.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "parallel/kernels/host/host_kernels.h"
#include "parallel/tensor/random.h"
#include "tests/parallel/kernels/tested_kernels.h"

namespace tutti::parallel {

/// The type of what is computed on, and of what is kept of it for backward and summed over rows.
struct Types {
  DType elements, kept;
  std::string describe() const { return std::string(toString(elements)) + "_" + toString(kept); }
};
inline std::ostream& operator<<(std::ostream& out, const Types& types) {
  return out << types.describe();
}

/// The same values for both.
struct Operand {
  Tensor gpu, exact;
  /// `count` elements of each row, from `first` on.
  Operand columns(int64_t first, int64_t count) const {
    const int last = gpu.shape.rank() - 1;
    return {gpu.part(last, first, count), exact.part(last, first, count)};
  }
};

class Compared : public testing::TestWithParam<Types> {
 protected:
  /// Makes a call for one of them, with its operands.
  class Side {
   public:
    Side(Kernels& of, bool isGpu) : kernels(of), isGpu_(isGpu) {}
    Kernels& kernels;
    Tensor operator()(const Operand& x) const { return isGpu_ ? x.gpu : x.exact; }
    bool isGpu() const { return isGpu_; }

   private:
    const bool isGpu_;
  };

  DType elements() const { return GetParam().elements; }
  DType kept() const { return GetParam().kept; }
  static constexpr DType kInt = DType::Int32;

  /// Of a normal distribution.
  Operand random(const Shape& shape, DType type, double size = 1);
  /// Multiples of 1/8 up to 2: sums of their products have no error in float32.
  Operand grid(const Shape& shape, DType type);
  Operand zeros(const Shape& shape, DType type);
  /// What is overwritten: NaN until then, or -7.
  Operand result(const Shape& shape, DType type);
  /// Rounded to the type, for both.
  Operand of(const std::vector<double>& values, const Shape& shape, DType type);
  Operand numbers(const std::vector<int32_t>& values, const Shape& shape);
  /// Below `end`.
  Operand ids(const Shape& shape, int32_t end);
  /// The reference's values, in the type.
  Operand rounded(const Operand& x, DType type);

  void both(const std::function<void(const Side&)>& call);
  /// Of all elements the ones of the reference, rounded once.
  void expectExact(const Operand& x, const char* what);
  /// To `factor` roundings of the type that is computed in, of the largest element or of 1, and to
  /// the one of the result.
  void expectNear(const Operand& x, double factor, const char* what);
  /// Bound of one rounding to nearest in the type that is computed in.
  double rounding() const { return elements() == DType::Float64 ? 0x1p-53 : 0x1p-24; }

  const std::unique_ptr<TestedKernels> tested_ = testedDevices().front().make();
  HostKernels host_;
  Arena arena_{"reference"};
  Arena unused_{"scratch"};

 private:
  struct Buffer {
    std::byte* memory;
    size_t bytes;  ///< with the margin before the operand
  };
  Operand make(const Shape& shape, DType type);
  void fill(const Operand& x, const std::function<double(uint64_t)>& value);
  std::vector<double> valuesOf(const Tensor& x);
  std::vector<std::byte> bytes() const;
  void expectMargins() const;

  std::vector<Buffer> buffers_;
  uint64_t next_ = 0;  ///< random number
};

/// float64, float32, and both types of 16 bits alone and with float32.
const auto allTypes =
    testing::Values(Types{DType::Float64, DType::Float64}, Types{DType::Float32, DType::Float32},
                    Types{DType::BFloat16, DType::BFloat16}, Types{DType::BFloat16, DType::Float32},
                    Types{DType::Float16, DType::Float16}, Types{DType::Float16, DType::Float32});
inline std::string nameOfTypes(const testing::TestParamInfo<Types>& info) {
  return info.param.describe();
}

}  // namespace tutti::parallel
