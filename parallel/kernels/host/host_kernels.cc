#include "parallel/kernels/host/host_kernels.h"

#include <algorithm>
#include <cstring>

#include "parallel/kernels/host/attention.h"
#include "parallel/kernels/host/blas.h"
#include "parallel/kernels/host/positions.h"
#include "parallel/kernels/host/staging.h"
#include "parallel/kernels/host/strided.h"
#include "parallel/kernels/operands.h"

namespace tutti::parallel {

using host::Positions;
using host::Staging;

namespace {

/// Elements from one row to the next.
int64_t strideOf(const Tensor& x) { return x.shape.rank() == 2 ? x.strides[0] : width(x); }

}  // namespace

HostKernels::HostKernels()
    : HostKernels(*host::availableElementwise().sets[0], host::prefersBrain()) {}

HostKernels::HostKernels(const host::ElementwiseSet& elementwise, bool brainProducts)
    : elementwise_(elementwise), brainProducts_(brainProducts) {
  require(!brainProducts || host::multipliesBrain(),
          "this processor has no products of bfloat16: leave brainProducts out");
}

void HostKernels::fillZero(const Tensor& x) {
  requireContiguous("fillZero", x);
  if (x.bytes() > 0) std::memset(x.data, 0, x.bytes());
}

void HostKernels::copy(const Tensor& from, const Tensor& to) {
  requireCopy(from, to);
  if (from.type == to.type) {
    const auto size = static_cast<int64_t>(sizeOf(to.type));
    return host::forEachRow(from, to, [&](int64_t source, int64_t target, int64_t count) {
      std::memcpy(static_cast<char*>(to.data) + target * size,
                  static_cast<const char*>(from.data) + source * size,
                  static_cast<size_t>(count * size));
    });
  }
  if (Staging s; Staging::needed({from, to})) {
    Tensor wideFrom = from, wideTo = to;
    s.in(wideFrom);
    s.out(wideTo);
    return copy(wideFrom, wideTo);
  }
  dispatch(from, [&](const auto&, auto source) {
    dispatch(to, [&](const auto&, auto target) {
      using From = decltype(source);
      using To = decltype(target);
      host::forEachRow(from, to, [&](int64_t at, int64_t toAt, int64_t count) {
        std::transform(from.as<From>() + at, from.as<From>() + at + count, to.as<To>() + toAt,
                       [](From value) { return static_cast<To>(value); });
      });
    });
  });
}

void HostKernels::addBias(const Tensor& bias, const Tensor& y) {
  if (Staging s; Staging::needed({bias, y})) {
    Tensor wideBias = bias, wideY = y;
    s.in(wideBias);
    s.inOut(wideY);
    return addBias(wideBias, wideY);
  }
  requireAddBias(bias, y);
  dispatch(y, [&](const auto& elementwise, auto zero) {
    using T = decltype(zero);
    elementwise.addBias(y.as<T>(), strideOf(y), bias.as<T>(), rows(y), width(y));
  });
}

void HostKernels::biasGradient(const Tensor& dy, const Tensor& db, double beta) {
  if (Staging s; Staging::needed({dy, db})) {
    Tensor wideDy = dy, wideDb = db;
    s.in(wideDy);
    s.result(wideDb, beta);
    return biasGradient(wideDy, wideDb, beta);
  }
  requireBiasGradient(dy, db);
  dispatch(dy, [&](const auto& elementwise, auto zero) {
    using T = decltype(zero);
    elementwise.columnSums(dy.as<T>(), strideOf(dy), rows(dy), width(dy), db.as<T>(), beta != 0);
  });
}

void HostKernels::add(const Tensor& from, const Tensor& to) {
  if (Staging s; Staging::needed({from, to})) {
    Tensor wideFrom = from, wideTo = to;
    s.in(wideFrom);
    s.inOut(wideTo);
    return add(wideFrom, wideTo);
  }
  requireAdd(from, to);
  dispatch(to, [&](const auto& elementwise, auto zero) {
    using T = decltype(zero);
    host::forEachRow(to, from, [&](int64_t toAt, int64_t at, int64_t count) {
      elementwise.add(to.as<T>() + toAt, from.as<T>() + at, count);
    });
  });
}

/// With the residual added to x, in the type of x.
template <class Norm>
Norm HostKernels::withSum(const char* operation, const Norm& args) {
  requireContiguous(operation, args.residual);
  add(args.residual, args.x);
  Norm rest = args;
  rest.residual = {};
  return rest;
}

void HostKernels::layerNorm(const LayerNormArgs& a) {
  if (a.residual.data != nullptr) return layerNorm(withSum("layerNorm's residual", a));
  if (Staging s; Staging::needed({a.x, a.weight, a.bias, a.y, a.mean, a.rstd})) {
    auto wide = a;
    s.in(wide.x);
    s.in(wide.weight);
    s.in(wide.bias);
    s.out(wide.y);
    s.out(wide.mean);
    s.out(wide.rstd);
    return layerNorm(wide);
  }
  requireOperands(a);
  dispatch(a.x, [&](const auto& elementwise, auto zero) {
    using T = decltype(zero);
    elementwise.layerNorm(a.x.as<T>(), a.weight.as<T>(), a.bias.as<T>(), a.y.as<T>(),
                          a.mean.as<T>(), a.rstd.as<T>(), rows(a.x), width(a.x),
                          static_cast<T>(a.epsilon));
  });
}

void HostKernels::layerNormBackward(const LayerNormBackwardArgs& a) {
  if (Staging s; Staging::needed({a.dy, a.x, a.weight, a.mean, a.rstd, a.residual, a.dx})) {
    auto wide = a;
    s.in(wide.dy);
    s.in(wide.x);
    s.in(wide.weight);
    s.in(wide.mean);
    s.in(wide.rstd);
    s.in(wide.residual);
    s.out(wide.dx);
    return layerNormBackward(wide);
  }
  requireOperands(a);
  requireSlices("layerNormBackward", a.sums, 0);
  dispatch(a.x, [&](const auto& elementwise, auto zero) {
    using T = decltype(zero);
    const T* residual = a.residual.data == nullptr ? nullptr : a.residual.as<T>();
    elementwise.layerNormBackward(a.dy.as<T>(), a.x.as<T>(), a.weight.as<T>(), a.mean.as<T>(),
                                  a.rstd.as<T>(), residual, a.dx.as<T>(), rows(a.x), width(a.x));
  });
}

void HostKernels::layerNormWeights(const LayerNormWeightArgs& a) {
  if (Staging s; Staging::needed({a.dy, a.x, a.mean, a.rstd, a.dWeight, a.dBias})) {
    auto wide = a;
    s.in(wide.dy);
    s.in(wide.x);
    s.in(wide.mean);
    s.in(wide.rstd);
    s.result(wide.dWeight, a.betaWeight);
    s.result(wide.dBias, a.betaBias);
    return layerNormWeights(wide);
  }
  requireOperands(a);
  requireSlices("layerNormWeights", a.sums, 0);
  dispatch(a.x, [&](const auto& elementwise, auto zero) {
    using T = decltype(zero);
    elementwise.layerNormWeights(a.dy.as<T>(), a.x.as<T>(), a.mean.as<T>(), a.rstd.as<T>(),
                                 a.dWeight.as<T>(), a.dBias.as<T>(), rows(a.x), width(a.x),
                                 a.betaWeight != 0, a.betaBias != 0);
  });
}

void HostKernels::gelu(const Tensor& x, const Tensor& y) {
  if (Staging s; Staging::needed({x, y})) {
    Tensor wideX = x, wideY = y;
    s.in(wideX);
    s.out(wideY);
    return gelu(wideX, wideY);
  }
  requireGelu(x, y);
  dispatch(x, [&](const auto& elementwise, auto zero) {
    using T = decltype(zero);
    elementwise.gelu(x.as<T>(), y.as<T>(), x.count());
  });
}

void HostKernels::geluBackward(const Tensor& dy, const Tensor& x, const Tensor& dx) {
  if (Staging s; Staging::needed({dy, x, dx})) {
    Tensor wideDy = dy, wideX = x, wideDx = dx;
    s.in(wideDy);
    s.in(wideX);
    s.out(wideDx);
    return geluBackward(wideDy, wideX, wideDx);
  }
  requireGeluBackward(dy, x, dx);
  dispatch(x, [&](const auto& elementwise, auto zero) {
    using T = decltype(zero);
    elementwise.geluBackward(dy.as<T>(), x.as<T>(), dx.as<T>(), x.count());
  });
}

void HostKernels::rmsNorm(const RmsNormArgs& a) {
  if (a.residual.data != nullptr) return rmsNorm(withSum("rmsNorm's residual", a));
  if (Staging s; Staging::needed({a.x, a.weight, a.y, a.rstd})) {
    auto wide = a;
    s.in(wide.x);
    s.in(wide.weight);
    s.out(wide.y);
    s.out(wide.rstd);
    return rmsNorm(wide);
  }
  requireOperands(a);
  dispatch(a.x, [&](const auto& elementwise, auto zero) {
    using T = decltype(zero);
    elementwise.rmsNorm(a.x.as<T>(), a.weight.as<T>(), a.y.as<T>(), a.rstd.as<T>(), rows(a.x),
                        width(a.x), static_cast<T>(a.epsilon));
  });
}

void HostKernels::rmsNormBackward(const RmsNormBackwardArgs& a) {
  if (Staging s; Staging::needed({a.dy, a.x, a.weight, a.rstd, a.residual, a.dx})) {
    auto wide = a;
    s.in(wide.dy);
    s.in(wide.x);
    s.in(wide.weight);
    s.in(wide.rstd);
    s.in(wide.residual);
    s.out(wide.dx);
    return rmsNormBackward(wide);
  }
  requireOperands(a);
  requireSlices("rmsNormBackward", a.sums, 0);
  dispatch(a.x, [&](const auto& elementwise, auto zero) {
    using T = decltype(zero);
    const T* residual = a.residual.data == nullptr ? nullptr : a.residual.as<T>();
    elementwise.rmsNormBackward(a.dy.as<T>(), a.x.as<T>(), a.weight.as<T>(), a.rstd.as<T>(),
                                residual, a.dx.as<T>(), rows(a.x), width(a.x));
  });
}

void HostKernels::rmsNormWeights(const RmsNormWeightArgs& a) {
  if (Staging s; Staging::needed({a.dy, a.x, a.rstd, a.dWeight})) {
    auto wide = a;
    s.in(wide.dy);
    s.in(wide.x);
    s.in(wide.rstd);
    s.result(wide.dWeight, a.beta);
    return rmsNormWeights(wide);
  }
  requireOperands(a);
  requireSlices("rmsNormWeights", a.sums, 0);
  dispatch(a.x, [&](const auto& elementwise, auto zero) {
    using T = decltype(zero);
    elementwise.rmsNormWeights(a.dy.as<T>(), a.x.as<T>(), a.rstd.as<T>(), a.dWeight.as<T>(),
                               rows(a.x), width(a.x), a.beta != 0);
  });
}

void HostKernels::rotary(const RotaryArgs& a) {
  if (Staging s; Staging::needed({a.x, a.cosine, a.sine})) {
    auto wide = a;
    s.in(wide.cosine);
    s.in(wide.sine);
    s.inOut(wide.x);
    return rotary(wide);
  }
  requireOperands(a);
  const int64_t half = a.headWidth / 2, context = a.x.shape[1], columns = width(a.x);
  const Positions positions("rotary", a.at, context, a.cosine.shape[0]);
  dispatch(a.x, [&](const auto& elementwise, auto zero) {
    using T = decltype(zero);
    T* row = a.x.as<T>();
    for (int64_t r = 0; r < rows(a.x); ++r, row += columns) {
      const int64_t at = positions.of(r) * half;
      const T *cosine = a.cosine.as<T>() + at, *sine = a.sine.as<T>() + at;
      for (int64_t h = 0; h < a.heads; ++h) {
        T* const head = row + h * a.headWidth;
        elementwise.rotate(head, head + half, cosine, sine, half, a.back ? T(-1) : T(1));
      }
    }
  });
}

void HostKernels::swiGlu(const Tensor& x, const Tensor& y) {
  if (Staging s; Staging::needed({x, y})) {
    Tensor wideX = x, wideY = y;
    s.in(wideX);
    s.out(wideY);
    return swiGlu(wideX, wideY);
  }
  requireSwiGlu(x, y);
  dispatch(x, [&](const auto& elementwise, auto zero) {
    using T = decltype(zero);
    const int64_t n = width(y);
    for (int64_t r = 0; r < rows(y); ++r) {
      const T* const gate = x.as<T>() + r * 2 * n;
      elementwise.swiGlu(gate, gate + n, y.as<T>() + r * n, n);
    }
  });
}

void HostKernels::swiGluBackward(const Tensor& dy, const Tensor& x, const Tensor& dx) {
  if (Staging s; Staging::needed({dy, x, dx})) {
    Tensor wideDy = dy, wideX = x, wideDx = dx;
    s.in(wideDy);
    s.in(wideX);
    s.out(wideDx);
    return swiGluBackward(wideDy, wideX, wideDx);
  }
  requireSwiGluBackward(dy, x, dx);
  dispatch(x, [&](const auto& elementwise, auto zero) {
    using T = decltype(zero);
    const int64_t n = width(dy);
    for (int64_t r = 0; r < rows(dy); ++r) {
      const T* const gate = x.as<T>() + r * 2 * n;
      T* const dGate = dx.as<T>() + r * 2 * n;
      elementwise.swiGluBackward(dy.as<T>() + r * n, gate, gate + n, dGate, dGate + n, n);
    }
  });
}

void HostKernels::attention(const AttentionArgs& args, Arena& scratch) {
  if (Staging s; Staging::needed({args.qkv, args.out, args.logSumExp})) {
    AttentionArgs wide = args;
    s.in(wide.qkv);
    s.out(wide.out);
    s.out(wide.logSumExp);
    return attention(wide, scratch);
  }
  dispatch(args.out,
           [&](const auto& elementwise, auto) { host::attention(args, elementwise, scratch); });
}

void HostKernels::attentionBackward(const AttentionBackwardArgs& args, Arena& scratch) {
  if (Staging s; Staging::needed({args.dOut, args.qkv, args.out, args.logSumExp, args.dQkv})) {
    AttentionBackwardArgs wide = args;
    s.in(wide.dOut);
    s.in(wide.qkv);
    s.in(wide.out);
    s.in(wide.logSumExp);
    s.out(wide.dQkv);
    return attentionBackward(wide, scratch);
  }
  dispatch(args.out, [&](const auto& elementwise, auto) {
    host::attentionBackward(args, elementwise, scratch);
  });
}

void HostKernels::attentionBlock(const AttentionBlockArgs& args, Arena& scratch) {
  if (Staging s; Staging::needed({args.query, args.key, args.value, args.out, args.logSumExp})) {
    AttentionBlockArgs wide = args;
    s.in(wide.query);
    s.in(wide.key);
    s.in(wide.value);
    s.out(wide.out);
    s.out(wide.logSumExp);
    return attentionBlock(wide, scratch);
  }
  dispatch(args.out, [&](const auto& elementwise, auto) {
    host::attentionBlock(args, elementwise, scratch);
  });
}

void HostKernels::attentionBlockBackward(const AttentionBlockBackwardArgs& args, Arena& scratch) {
  if (Staging s; Staging::needed({args.dOut, args.query, args.key, args.value, args.out,
                                  args.logSumExp, args.dQuery, args.dKey, args.dValue})) {
    AttentionBlockBackwardArgs wide = args;
    s.in(wide.dOut);
    s.in(wide.query);
    s.in(wide.key);
    s.in(wide.value);
    s.in(wide.out);
    s.in(wide.logSumExp);
    s.inOut(wide.dQuery);
    s.inOut(wide.dKey);
    s.inOut(wide.dValue);
    return attentionBlockBackward(wide, scratch);
  }
  dispatch(args.out, [&](const auto& elementwise, auto) {
    host::attentionBlockBackward(args, elementwise, scratch);
  });
}

void HostKernels::attentionMerge(const AttentionMergeArgs& args) {
  if (Staging s; Staging::needed({args.part, args.partLogSumExp, args.out, args.logSumExp})) {
    AttentionMergeArgs wide = args;
    s.in(wide.part);
    s.in(wide.partLogSumExp);
    s.inOut(wide.out);
    s.inOut(wide.logSumExp);
    return attentionMerge(wide);
  }
  dispatch(args.out,
           [&](const auto& elementwise, auto) { host::attentionMerge(args, elementwise); });
}

void HostKernels::adamW(const AdamWArgs& args) {
  for (const AdamWTensors& tensors : args.tensors) {
    update(args, tensors);
    if (tensors.copy.data != nullptr) copy(tensors.weight, tensors.copy);
  }
}

void HostKernels::update(const AdamWArgs& args, const AdamWTensors& t) {
  if (Staging s; Staging::needed({t.weight, t.gradient, t.first, t.second})) {
    AdamWTensors wide = t;
    s.inOut(wide.weight);
    s.in(wide.gradient);
    s.inOut(wide.first);
    s.inOut(wide.second);
    return update(args, wide);
  }
  requireOperands(t);
  dispatch(t.weight, [&](const auto& elementwise, auto zero) {
    using T = decltype(zero);
    const host::AdamWStep<T> step{T(args.gradientScale),   T(args.learningRate),   T(args.beta1),
                                  T(args.beta2),           T(args.epsilon),        T(t.weightDecay),
                                  T(1 / args.correction1), T(1 / args.correction2)};
    elementwise.adamW(t.weight.as<T>(), t.gradient.as<T>(), t.first.as<T>(), t.second.as<T>(),
                      t.weight.count(), step);
  });
}

void HostKernels::sgd(const SgdArgs& args) {
  for (const SgdTensors& tensors : args.tensors) update(args, tensors);
}

void HostKernels::update(const SgdArgs& args, const SgdTensors& t) {
  if (Staging s; Staging::needed({t.weight, t.gradient, t.velocity})) {
    SgdTensors wide = t;
    s.inOut(wide.weight);
    s.in(wide.gradient);
    s.inOut(wide.velocity);
    return update(args, wide);
  }
  requireOperands(t);
  dispatch(t.weight, [&](const auto& elementwise, auto zero) {
    using T = decltype(zero);
    const host::SgdStep<T> step{T(args.gradientScale), T(args.learningRate), T(t.weightDecay),
                                T(args.momentum)};
    if (t.velocity.data == nullptr)
      elementwise.sgd(t.weight.as<T>(), t.gradient.as<T>(), t.weight.count(), step);
    else
      elementwise.momentumSgd(t.weight.as<T>(), t.gradient.as<T>(), t.velocity.as<T>(),
                              t.weight.count(), step);
  });
}

void HostKernels::addSquares(std::span<const Tensor> all, ExactSum& sum) {
  for (const Tensor& x : all) addSquaresOf(x, sum);
}

void HostKernels::addSquaresOf(const Tensor& x, ExactSum& sum) {
  if (Staging s; Staging::needed({x})) {
    Tensor wide = x;
    s.in(wide);
    return addSquaresOf(wide, sum);
  }
  requireContiguous("addSquares", x);
  dispatch(x, [&](const auto&, auto zero) {
    using T = decltype(zero);
    sum.addSquares(std::span<const T>(x.as<T>(), static_cast<size_t>(x.count())));
  });
}

}  // namespace tutti::parallel
