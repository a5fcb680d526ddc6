#include "bench/gpu/gemm_epilogues.h"

#include <array>
#include <cmath>

namespace tutti::bench {
namespace {

using parallel::Activation;
using parallel::GemmEpilogue;
using parallel::Kernels;

constexpr std::array kKinds{
    ProductKind{"forward", false, true},
    ProductKind{"dgrad"},
    ProductKind{"wgrad", true},
    ProductKind{"gelu", false, true, Activation::Gelu, true},
    ProductKind{"dgelu", false, false, Activation::GeluBackward},
    ProductKind{"swiglu", false, true, Activation::SwiGlu},
    ProductKind{"dswiglu", false, false, Activation::SwiGluBackward},
    ProductKind{"residual", false, true, Activation::None, true, true},
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// GELU in its tanh form, and its derivative.
double gelu(double x, bool isDerivative) {
  const double root = std::sqrt(2 / M_PI);
  const double t = std::tanh(root * (x + 0.044715 * x * x * x));
  if (!isDerivative) return x / 2 * (1 + t);
  return (1 + t) / 2 + x / 2 * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
}

}  // namespace

const ProductKind* findKind(const std::string& name) {
  for (const ProductKind& kind : kKinds)
    if (name == kind.name) return &kind;
  return nullptr;
}

std::string kindsInWords() {
  std::string words;
  for (const ProductKind& kind : kKinds)
    words += std::string(words.empty() ? "" : &kind == &kKinds.back() ? " or " : ", ") + kind.name;
  return words;
}

GemmEpilogue epilogueOf(Gpu& gpu, const ProductKind& kind, const Shape& product,
                        const std::vector<float>& period) {
  const auto operand = [&](int64_t rows, int64_t columns) {
    return gpu.repeated(DType::BFloat16, {rows, columns}, period);
  };
  const int64_t rows = product[0], columns = product[1];
  GemmEpilogue epilogue{.activation = kind.activation};
  if (kind.activation == Activation::Gelu || kind.activation == Activation::GeluBackward)
    epilogue.inner = operand(rows, columns);
  else if (kind.activation != Activation::None)
    epilogue.inner = operand(rows, 2 * columns);
  if (kind.hasBias) epilogue.bias = gpu.repeated(DType::BFloat16, {columns}, period);
  if (kind.hasResidual) epilogue.residual = operand(rows, columns);
  return epilogue;
}

Call inParts(Gpu& gpu, const GemmArgs& args, std::function<void(const GemmArgs&)> gemm) {
  Kernels& kernels = gpu.kernels();
  const GemmEpilogue& e = args.epilogue;
  GemmArgs plain = args;
  plain.epilogue = {};
  switch (e.activation) {
    case Activation::Gelu:
      plain.c = e.inner;
      return [=, &kernels] {
        gemm(plain);
        kernels.addBias(e.bias, e.inner);
        kernels.gelu(e.inner, args.c);
      };
    case Activation::GeluBackward:
      return [=, &kernels] {
        gemm(plain);
        kernels.geluBackward(args.c, e.inner, args.c);
      };
    case Activation::SwiGlu:
      plain.c = e.inner.part(1, args.c.shape[1], args.c.shape[1]);
      return [=, &kernels] {
        gemm(plain);
        kernels.swiGlu(e.inner, args.c);
      };
    case Activation::SwiGluBackward:
      plain.c = gpu.allocate(DType::BFloat16, {args.c.shape[0], args.c.shape[1] / 2});
      return [=, &kernels] {
        gemm(plain);
        kernels.swiGluBackward(plain.c, e.inner, args.c);
      };
    case Activation::None: break;
  }
  return [=, &kernels] {
    gemm(plain);
    if (e.bias.data != nullptr) kernels.addBias(e.bias, args.c);
    if (e.residual.data != nullptr) kernels.add(e.residual, args.c);
  };
}

Expected behindEpilogue(const GemmArgs& args, double sum, int64_t row, int64_t column,
                        const std::vector<float>& period) {
  const auto number = [&](int64_t at) {
    return static_cast<double>(period[static_cast<size_t>(at) % period.size()]);
  };
  const GemmEpilogue& e = args.epilogue;
  const auto inner = [&](int64_t at) { return number(row * e.inner.shape[1] + at); };
  if (e.bias.data != nullptr) sum += number(column);
  switch (e.activation) {
    case Activation::Gelu: return {gelu(sum, false), sum, column, sum};
    case Activation::GeluBackward: return {sum * gelu(inner(column), true), sum};
    case Activation::SwiGlu: {
      const double gate = inner(column);
      return {gate * sigmoid(gate) * sum, sum, e.inner.shape[1] / 2 + column, sum};
    }
    case Activation::SwiGluBackward: {
      const int64_t columns = e.inner.shape[1] / 2;
      const double gate = inner(column % columns), s = sigmoid(gate);
      if (column >= columns) return {sum * gate * s, sum};
      return {sum * inner(columns + column) * s * (1 + gate * (1 - s)), sum};
    }
    case Activation::None: break;
  }
  if (e.residual.data != nullptr) sum += number(row * e.residual.shape[1] + column);
  return {sum, 0};
}

}  // namespace tutti::bench
