#pragma once

// bfloat16 and float16 on the host: operands are widened to float32, which a processor computes in,
// and results are rounded once, to nearest even, when the kernel is through. So every sum is
// accumulated in float32, and tensors of both types may meet in one call.

#include <initializer_list>
#include <vector>

#include "parallel/tensor/arena.h"
#include "parallel/tensor/tensor.h"

namespace tutti::parallel::host {

/// `count` elements of a type of 16 bits; NaN stays NaN, and what is too large becomes infinite.
void widen(DType type, const uint16_t* from, float* to, int64_t count);
void narrow(DType type, const float* from, uint16_t* to, int64_t count);

/// The float32 operands of one call, in memory of this thread, for as long as this lives. Results
/// go back to where they belong at its end.
class Staging {
 public:
  Staging();
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// One of them is of 16 bits, so that the call must be made with what in() and its like give.
  static bool needed(std::initializer_list<Tensor> operands);
  /// Makes `x` its float32 copy, if it is of 16 bits: of an operand that is only read, of a result
  /// that is overwritten, of one that is added to. Rows may be strided. One without data is of
  /// float32 from then on and has none, so that needed() is false of all that went through here.
  void in(Tensor& x) { stage(x, true, false); }
  void out(Tensor& x) { stage(x, false, true); }
  void inOut(Tensor& x) { stage(x, true, true); }
  /// What the call computes on the way.
  Tensor allocate(DType type, const Shape& shape);
  /// A result that is overwritten when `beta` is 0, and else added to.
  void result(Tensor& x, double beta) { stage(x, beta != 0, true); }

 private:
  void stage(Tensor& x, bool read, bool write);
  struct Result {
    Tensor narrow, wide;
  };
  const Arena::Mark mark_;
  std::vector<Result> results_;
};

}  // namespace tutti::parallel::host
