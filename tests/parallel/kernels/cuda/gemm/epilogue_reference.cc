#include "tests/parallel/kernels/cuda/gemm/epilogue_reference.h"

#include <cmath>

namespace tutti::parallel::cuda {

namespace {

constexpr double kRounding = 0x1p-24;

struct Slope {
  double value, slope;
};
Slope gelu(double x) {
  const double k = std::sqrt(2 / M_PI), t = std::tanh(k * (x + 0.044715 * x * x * x));
  return {x / 2 * (1 + t), (1 + t) / 2 + x / 2 * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x)};
}
Slope silu(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return {x * s, s + x * s * (1 - s)};
}

Near plus(const Near& x, double more) {
  if (more == 0) return x;
  const double sum = x.value + more;
  // Of numbers that are known the sum is exact, or its rounding is the only one.
  return {sum, x.error == 0 ? 0 : x.error + kRounding * (std::fabs(sum) + x.error)};
}

/// A product of what was computed with what is known up to `error`.
Near times(const Near& x, double factor, double error) {
  const double product = x.value * factor;
  const double size = std::fabs(x.value) + x.error;
  return {product,
          x.error * std::fabs(factor) + size * error + 2 * kRounding * (std::fabs(product) + 1)};
}

}  // namespace

bool Near::isWithin(double got, double unit) const {
  return std::fabs(got - value) <= error + unit * (std::fabs(value) + error) + 0x1p-25;
}

// Gates and their slopes. The exponent v of exp(-|v|) errs by 5 of its own roundings, so the
// exponential by 5 |v| and 3 more; as |v| exp(-|v|) is below 0.4, the sigmoid errs by fewer than 8
// roundings, and x times it by 8 |x|. Of the slope's second summand the factors x s (1 - s) v' are
// below 2 together; relative to that it errs by 5 |v| + 16 roundings, and times exp(-|v|) that is
// below 32. A gate's slope is below 1.13, by which the error of its argument grows.
EpilogueResult epilogueOf(const EpilogueInput& in) {
  constexpr double kGate = 8 * kRounding, kSlope = 64 * kRounding, kSteepest = 1.13;
  Near x = in.sum;
  x.value *= in.scale;
  x.error = std::fabs(in.scale) * x.error * (1 + kRounding) +
            (x.error == 0 ? 0 : kRounding * std::fabs(x.value));
  x = plus(x, in.bias);
  EpilogueResult result{.kept = x, .c = {x, {}}};
  const bool isGelu =
      in.activation == Activation::Gelu || in.activation == Activation::GeluBackward;
  const double argument = in.activation == Activation::Gelu ? x.value : in.inner[0];
  const Slope gate = isGelu ? gelu(argument) : silu(argument);
  const double ofGate = kGate * std::fabs(argument);
  switch (in.activation) {
    case Activation::None: break;
    case Activation::Gelu: result.c[0] = {gate.value, kSteepest * x.error + ofGate}; break;
    case Activation::GeluBackward: result.c[0] = times(x, gate.slope, kSlope); break;
    case Activation::SwiGlu: result.c[0] = times(x, gate.value, ofGate); break;
    case Activation::SwiGluBackward:
      result.c[0] = times(times(x, in.inner[1], 0), gate.slope, kSlope);
      result.c[1] = times(x, gate.value, ofGate);
      break;
  }
  for (int half = 0; half < 2; ++half)
    result.c[half] = plus(plus(result.c[half], in.residual[half]), in.before[half]);
  return result;
}

}  // namespace tutti::parallel::cuda
