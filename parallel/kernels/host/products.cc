// Products by blas.h, and their epilogues: what they compute and round is what the calls do that
// have one step each.

#include <algorithm>

#include "parallel/kernels/host/blas.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/kernels/host/staging.h"
#include "parallel/kernels/host/strided.h"
#include "parallel/kernels/operands.h"

namespace tutti::parallel {

using host::Staging;

namespace {

bool isNothing(const GemmEpilogue& e) {
  return e.activation == Activation::None && e.bias.data == nullptr && e.residual.data == nullptr &&
         e.scale == 1;
}

/// Float32 in the place of 16 bits, as what is checked must be of one type.
GemmArgs widened(GemmArgs args) {
  for (Tensor* x : {&args.a, &args.b, &args.c, &args.epilogue.inner, &args.epilogue.bias,
                    &args.epilogue.residual})
    x->type = isNarrow(x->type) ? DType::Float32 : x->type;
  return args;
}

/// A row, which is contiguous by itself.
Tensor rowOf(const Tensor& matrix, int64_t row) {
  Tensor result = matrix.rows(row, 1);
  result.strides[0] = result.shape[1];
  return result;
}

/// Calls visit(rows of each) for matrices that have as many: once, or row by row where there are
/// gaps between them.
template <class Visit, class... Matrices>
void forRows(const Visit& visit, const Tensor& first, const Matrices&... others) {
  if ((first.contiguous() && ... && others.contiguous())) return visit(first, others...);
  for (int64_t row = 0; row < first.shape[0]; ++row)
    visit(rowOf(first, row), rowOf(others, row)...);
}

/// The epilogue of a product of float32, part by part. A row's bits are those that the kernels give
/// which do one step each.
struct FusedEpilogue {
  const host::ElementwiseKernels<float>& elementwise;
  const GemmEpilogue& e;
  const Tensor &sums, &result;

  static float* at(const Tensor& x, int64_t row, int64_t column) {
    return x.as<float>() + row * x.strides[0] + column;
  }
  void activate(int64_t row, int64_t column, int64_t count) const {
    float *const x = at(sums, row, column), *const y = at(result, row, column);
    switch (e.activation) {
      case Activation::None: return;
      case Activation::Gelu: return elementwise.gelu(x, y, count);
      case Activation::GeluBackward:
        return elementwise.geluBackward(y, at(e.inner, row, column), y, count);
      case Activation::SwiGlu: return elementwise.swiGlu(at(e.inner, row, column), x, y, count);
      case Activation::SwiGluBackward: {
        const int64_t up = column + sums.shape[1];
        return elementwise.swiGluBackward(x, at(e.inner, row, column), at(e.inner, row, up), y,
                                          at(result, row, up), count);
      }
    }
  }
  /// To the result's columns from `column` on.
  void addResidual(int64_t row, int64_t column, int64_t count) const {
    if (e.residual.data == nullptr) return;
    elementwise.add(at(result, row, column), at(e.residual, row, column), count);
  }
  void operator()(const host::ProductPart& part) const {
    const int64_t column = part.column, count = part.columns;
    for (int64_t row = part.row; row < part.row + part.rows; ++row) {
      if (e.bias.data != nullptr)
        elementwise.add(at(sums, row, column), e.bias.as<float>() + column, count);
      activate(row, column, count);
      addResidual(row, column, count);
      if (e.activation == Activation::SwiGluBackward)
        addResidual(row, column + sums.shape[1], count);
    }
  }
};

/// Whether nothing is rounded between the product and its epilogue, and nothing comes behind it.
bool fuses(const GemmArgs& a) {
  const GemmEpilogue& e = a.epilogue;
  return a.c.type == DType::Float32 && a.beta == 0 && e.scale == 1 &&
         !Staging::needed({a.a, a.b, a.c, e.inner, e.bias, e.residual});
}

host::BlasShape shapeOf(const GemmArgs& args, const Tensor& c) {
  return {c.shape[0], c.shape[1], summed(args), args.transposeA, args.transposeB};
}

}  // namespace

void HostKernels::gemm(const GemmArgs& args) {
  if (args.c.shape.rank() == 3) {
    requireOperands(widened(args));
    for (int64_t i = 0; i < batchOf(args); ++i) gemm(productOf(args, i));
    return;
  }
  if (!isNothing(args.epilogue)) return gemmThrough(args);
  if (brainProducts_ && args.a.type == DType::BFloat16 && args.b.type == DType::BFloat16)
    return gemmOfBrain(args);
  if (Staging s; Staging::needed({args.a, args.b, args.c})) {
    GemmArgs wide = args;
    s.in(wide.a);
    s.in(wide.b);
    s.result(wide.c, args.beta);
    return gemm(wide);
  }
  const Tensor &a = args.a, &b = args.b, &c = args.c;
  requireOperands(args);
  const host::BlasShape shape = shapeOf(args, c);
  dispatch(c, [&](const auto&, auto zero) {
    using T = decltype(zero);
    host::gemm<T>(shape, {a.as<T>(), a.strides[0]}, {b.as<T>(), b.strides[0]}, args.beta,
                  {c.as<T>(), c.strides[0]});
  });
}

/// The factors as they are; a result of 16 bits is rounded once, when it is summed up.
void HostKernels::gemmOfBrain(const GemmArgs& args) {
  requireOperands(widened(args));
  Staging memory;
  Tensor c = args.c;
  memory.result(c, args.beta);
  const auto bits = [](const Tensor& x) {
    return host::Matrix<const uint16_t>{static_cast<const uint16_t*>(x.data), x.strides[0]};
  };
  host::gemmOfBrain({c.shape[0], c.shape[1], summed(args), args.transposeA, args.transposeB},
                    bits(args.a), bits(args.b), args.beta, {c.as<float>(), c.strides[0]});
}

/// Sums go where the activation reads them, or to c; to memory of this call where c is added to.
void HostKernels::gemmThrough(const GemmArgs& args) {
  requireOperands(widened(args));
  const GemmEpilogue& e = args.epilogue;
  const DType type = args.c.type;
  Staging memory;
  const Tensor result = args.beta == 0 ? args.c : memory.allocate(type, args.c.shape);
  Tensor sums = result;
  if (e.activation == Activation::Gelu && e.inner.data != nullptr) sums = e.inner;
  if (e.activation == Activation::SwiGlu) sums = rightHalf(e.inner);
  if (e.activation == Activation::SwiGluBackward)
    sums = memory.allocate(type, {args.c.shape[0], productColumns(args)});
  if (fuses(args)) return gemmFused(args, sums);
  gemm({.a = args.a,
        .b = args.b,
        .c = sums,
        .transposeA = args.transposeA,
        .transposeB = args.transposeB});
  if (e.scale != 1) scale(sums, e.scale);
  if (e.bias.data != nullptr) addBias(e.bias, sums);
  activate(e, sums, result);
  if (e.residual.data != nullptr) add(e.residual, result);
  if (args.beta != 0) add(result, args.c);
}

/// Of a part of the product the epilogue is computed while it is in a cache.
void HostKernels::gemmFused(const GemmArgs& args, const Tensor& sums) {
  const Tensor &a = args.a, &b = args.b;
  FusedEpilogue epilogue{elementwise_.floats, args.epilogue, sums, args.c};
  const host::PartDone done{.call =
                                [](void* context, const host::ProductPart& part) {
                                  (*static_cast<const FusedEpilogue*>(context))(part);
                                },
                            .context = &epilogue};
  host::gemm<float>(shapeOf(args, sums), {a.as<float>(), a.strides[0]},
                    {b.as<float>(), b.strides[0]}, 0, {sums.as<float>(), sums.strides[0]},
                    host::Factors::Any, done);
}

void HostKernels::activate(const GemmEpilogue& e, const Tensor& sums, const Tensor& result) {
  switch (e.activation) {
    case Activation::None: return;
    case Activation::Gelu:
      return forRows([this](const Tensor& x, const Tensor& y) { gelu(x, y); }, sums, result);
    case Activation::GeluBackward:
      return forRows([this](const Tensor& x, const Tensor& dx) { geluBackward(dx, x, dx); },
                     e.inner, result);
    case Activation::SwiGlu:
      return forRows([this](const Tensor& x, const Tensor& y) { swiGlu(x, y); }, e.inner, result);
    case Activation::SwiGluBackward:
      return forRows([this](const Tensor& dy, const Tensor& x,
                            const Tensor& dx) { swiGluBackward(dy, x, dx); },
                     sums, e.inner, result);
  }
}

void HostKernels::scale(const Tensor& x, double by) {
  if (Staging s; Staging::needed({x})) {
    Tensor wide = x;
    s.inOut(wide);
    return scale(wide, by);
  }
  dispatch(x, [&](const auto&, auto zero) {
    using T = decltype(zero);
    host::forEachRow(x, x, [&](int64_t at, int64_t, int64_t count) {
      T* const row = x.as<T>() + at;
      std::transform(row, row + count, row, [by](T value) { return value * static_cast<T>(by); });
    });
  });
}

}  // namespace tutti::parallel
