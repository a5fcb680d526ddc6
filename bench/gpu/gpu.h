#pragma once

// What the programs that time kernels share: GPU 0 with this library's kernels, content of its
// memory that the host knows, calls that take turns, and what their times are summed up to.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tutti/device.h>
#include "parallel/kernels/kernels.h"
#include "parallel/tensor/arena.h"

namespace tutti::bench {

using parallel::DType;
using parallel::Shape;
using parallel::Tensor;
using Call = std::function<void()>;

/// So many numbers from a multiple of 1/8 below 0 to the same above it, each as often: bfloat16 has
/// them, and float32 their products and the sums of 2^17 of these, in any order.
std::vector<float> eighths(int64_t count, int most, uint64_t seed);

class Gpu {
 public:
  /// Throws Unsupported where there is none.
  Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  parallel::Kernels& kernels() { return *kernels_; }
  CUstream_st* stream() const;
  void synchronize() { stream_->synchronize(); }

  /// Not initialized; valid until the next clear().
  Tensor allocate(DType type, const Shape& shape);
  /// With `period` over and over, rounded to the type.
  Tensor repeated(DType type, const Shape& shape, const std::vector<float>& period);
  Tensor numbers(const Shape& shape, const std::vector<int32_t>& period);
  Tensor zeros(DType type, const Shape& shape);
  /// As allocate(), in page-locked memory of the host; every bit is set.
  Tensor allocatePinned(DType type, const Shape& shape);
  void clear();

  /// Elements of a contiguous tensor, bfloat16 or float32, or of float64 rounded to that.
  std::vector<float> read(const Tensor& x);
  /// The same of int32.
  std::vector<int32_t> readNumbers(const Tensor& x);
  /// The same of any type, as bytes.
  void readBytes(const Tensor& x, void* to);

  /// Microseconds of a call: each function has its turn so often, and these are the medians. A turn
  /// is of as many calls, one behind the other, as take about `turnMicroseconds`.
  std::vector<double> inTurns(const std::vector<Call>& calls, int turns);
  /// Of one turn.
  double microseconds(const Call& call, int count);

  double turnMicroseconds = 2000;

 private:
  Tensor repeatedBytes(DType type, const Shape& shape, const void* period, size_t bytes);
  int countFor(const Call& call);

  std::shared_ptr<Stream> stream_;
  std::unique_ptr<parallel::Kernels> kernels_;
  std::vector<Memory> memory_;
};

/// The geometric mean of ratios, and the least with its name.
class Ratios {
 public:
  void add(const std::string& name, double ratio);
  /// "geometric mean 1.012 over 140, worst 0.870 of NAME"; of none "nothing was compared".
  std::string describe() const;

 private:
  double logarithms_ = 0, least_ = 0;
  int count_ = 0;
  std::string worst_;
};

double median(std::vector<double> values);

/// What a program may spend: at the end of it the rest is left out, and said to be.
class Budget {
 public:
  explicit Budget(double seconds);
  bool isSpent() const;

 private:
  std::chrono::steady_clock::time_point end_;
};

/// The words behind the program's name: flags with a value, and others.
class Words {
 public:
  Words(int argc, char** argv, const std::vector<std::string>& flags);
  /// Of --flag; throws InvalidArgument unless it is more than 0.
  double number(const std::string& flag, double otherwise) const;
  std::string text(const std::string& flag) const;
  const std::vector<std::string>& others() const { return others_; }

 private:
  std::vector<std::pair<std::string, std::string>> flags_;
  std::vector<std::string> others_;
};

/// Runs `body`; an exception is printed behind `name`, and the exit code is 1.
int guarded(const char* name, const std::function<int()>& body);

}  // namespace tutti::bench
