#pragma once

// Operands of the kernels of vectorized/ in one piece of memory, on a GPU or on the emulation. What
// is between them, and between their rows, is NaN, so that what is read there shows; whoever writes
// there leaves other bytes than the reference kernels do.

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "parallel/kernels/cuda/vectorized/vectorized.h"
#include "tests/emulation/device_array.h"
#include "tests/parallel/kernels/cuda/formats.h"

namespace tutti::parallel::cuda {

/// The formats of what is computed on, and of what is kept and summed.
struct Formats {
  ElementFormat elements, kept;
};
inline constexpr Formats kAllFormats[] = {{ElementFormat::Float32, ElementFormat::Float32},
                                          {ElementFormat::BFloat16, ElementFormat::BFloat16},
                                          {ElementFormat::BFloat16, ElementFormat::Float32},
                                          {ElementFormat::Float16, ElementFormat::Float16},
                                          {ElementFormat::Float16, ElementFormat::Float32}};

/// Rows of `width` elements, so many elements apart, the first so many behind a multiple of 256
/// bytes.
struct Rows {
  int64_t rows, width, stride, shift = 0;
};

class Pool {
 public:
  using Call = std::function<cudaError_t(MemoryBoundFamily)>;

  Pool() { memory_.fill(kNaNs); }
  ~Pool() { expectNothingBehind(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  struct Range {
    double least, most;
  };
  Elements random(const Rows& rows, ElementFormat format, const Range& range = {-4, 4});
  /// NaN.
  Elements result(const Rows& rows, ElementFormat format);
  /// A result of one row is this number instead.
  void set(const Elements& x, int64_t index, double value);
  /// Which results of compute() have as before.
  float* scratch(int64_t count);
  const int32_t* numbers(const std::vector<int32_t>& values);
  /// Results, NaN.
  double* doubles(int64_t count);

  /// Computes from the same memory each time: twice by vectors, which must leave the same bits, and
  /// then plainly. Returns the two results.
  struct Results {
    std::vector<char> vectorized, reference;
  };
  Results compute(const Call& call);
  /// All bytes are those that the reference kernels leave.
  void expectReferenceBits(const Call& call, const std::string& what);
  /// Forgets all operands.
  void reset();
  const std::vector<char>& image() const { return image_; }
  /// Elements are as before in the bytes of a result.
  void erase(std::vector<char>& bytes, const Elements& x, int64_t count) const;
  /// An element as bytes of a result have it.
  double numberIn(const std::vector<char>& bytes, const Elements& x, int64_t index) const;
  double doubleIn(const std::vector<char>& bytes, const double* x) const;

 private:
  static constexpr size_t kBytes = size_t{5} << 18;
  static constexpr char kNaNs = -1;
  size_t place(size_t bytes);
  /// Behind the operands all is NaN still. Looked at once for all calls of the same operands, as it
  /// is most of the memory.
  void expectNothingBehind() const;
  std::vector<char> after(const Call& call, MemoryBoundFamily family);
  size_t offsetOf(const Elements& x, int64_t index) const;

  emulation::DeviceArray<char> memory_{kBytes};
  size_t used_ = 256;
  bool isComputed_ = false;  // something, since it was looked at what is behind
  std::vector<char> image_ = std::vector<char>(used_, kNaNs);  // of what is used
  std::vector<std::pair<Elements, int64_t>> scratch_;
  emulation::Random random_{5};
};

}  // namespace tutti::parallel::cuda
