#include "parallel/kernels/host/host_kernels.h"

#include <cstring>
#include <initializer_list>

#include "parallel/kernels/host/attention.h"
#include "parallel/kernels/host/blas.h"

namespace tutti::parallel {

namespace {

int64_t width(const Tensor& x) { return x.shape.rank() == 0 ? 1 : x.shape[-1]; }
int64_t rows(const Tensor& x) { return width(x) == 0 ? 0 : x.count() / width(x); }

/// Same shape, type and adjacent elements for all; names the operation and the first that differs.
template <class... Others>
void requireSame(const char* operation, const Tensor& first, const Others&... others) {
  const auto check = [&](const Tensor& other) {
    require(other.shape == first.shape && other.type == first.type && other.contiguous() &&
                first.contiguous(),
            operation, ": ", first, " and ", other, " do not go together");
  };
  (check(others), ...);
}

void requireVector(const char* operation, const Tensor& vector, int64_t count, DType type) {
  require(vector.count() == count && vector.type == type && vector.contiguous(), operation, ": ",
          count, " elements of ", toString(type), " are needed, not ", vector);
}

void requireIds(const char* operation, const Tensor& ids, int64_t count) {
  require(ids.count() == count && ids.type == DType::Int32 && ids.contiguous(), operation, ": ",
          count, " int32 ids are needed, not ", ids);
}

void requireContiguous(const char* operation, std::initializer_list<Tensor> tensors) {
  for (const Tensor& x : tensors)
    require(x.contiguous(), operation, ": ", x, " must be contiguous");
}

void requireId(const char* operation, int64_t id, int64_t lowest, int64_t end) {
  require(id >= lowest && id < end, operation, ": id ", id, " is not in [", lowest, ", ", end, ")");
}

}  // namespace

HostKernels::HostKernels() : HostKernels(*host::availableLeaves().sets[0]) {}

/// Calls body(leaves of x's type); the argument's type tells the body what T is.
template <class Body>
void HostKernels::dispatch(const Tensor& x, Body body) const {
  switch (x.type) {
    case DType::Float32: return body(leaves_.floats, float{});
    case DType::Float64: return body(leaves_.doubles, double{});
    default:
      fail(ErrorCode::Unsupported, "the host kernels compute in float32 and float64, not in ",
           toString(x.type));
  }
}

void HostKernels::gemm(const GemmArgs& args) {
  const Tensor &a = args.a, &b = args.b, &c = args.c;
  require(a.shape.rank() == 2 && b.shape.rank() == 2 && c.shape.rank() == 2, "gemm of ", a, " and ",
          b, " into ", c);
  const int64_t k = a.shape[args.transposeA ? 0 : 1];
  const host::GemmShape shape{c.shape[0], c.shape[1], k, args.transposeA, args.transposeB};
  require(a.shape[args.transposeA ? 1 : 0] == shape.m && b.shape[args.transposeB ? 1 : 0] == k &&
              b.shape[args.transposeB ? 0 : 1] == shape.n && a.strides[1] == 1 &&
              b.strides[1] == 1 && c.strides[1] == 1,
          "gemm of ", a, args.transposeA ? " transposed" : "", " and ", b,
          args.transposeB ? " transposed" : "", " into ", c);
  dispatch(c, [&](const auto&, auto zero) {
    using T = decltype(zero);
    host::gemm<T>(shape, {a.as<T>(), a.strides[0]}, {b.as<T>(), b.strides[0]}, args.beta,
                  {c.as<T>(), c.strides[0]});
  });
}

void HostKernels::fillZero(const Tensor& x) {
  requireContiguous("fillZero", {x});
  if (x.bytes() > 0) std::memset(x.data, 0, x.bytes());
}

void HostKernels::copy(const Tensor& from, const Tensor& to) {
  requireSame("copy", from, to);
  if (to.bytes() > 0) std::memcpy(to.data, from.data, to.bytes());
}

void HostKernels::addBias(const Tensor& bias, const Tensor& y) {
  requireVector("addBias", bias, width(y), y.type);
  requireContiguous("addBias", {y});
  dispatch(y, [&](const auto& leaves, auto zero) {
    using T = decltype(zero);
    leaves.addBias(y.as<T>(), bias.as<T>(), rows(y), width(y));
  });
}

void HostKernels::biasGradient(const Tensor& dy, const Tensor& db, double beta) {
  requireVector("biasGradient", db, width(dy), dy.type);
  requireContiguous("biasGradient", {dy});
  dispatch(dy, [&](const auto& leaves, auto zero) {
    using T = decltype(zero);
    leaves.columnSums(dy.as<T>(), rows(dy), width(dy), db.as<T>(), beta != 0);
  });
}

void HostKernels::add(const Tensor& from, const Tensor& to) {
  requireSame("add", from, to);
  dispatch(to, [&](const auto& leaves, auto zero) {
    using T = decltype(zero);
    leaves.add(to.as<T>(), from.as<T>(), to.count());
  });
}

void HostKernels::layerNorm(const LayerNormArgs& a) {
  requireSame("layerNorm", a.x, a.y);
  requireVector("layerNorm's weight", a.weight, width(a.x), a.x.type);
  requireVector("layerNorm's bias", a.bias, width(a.x), a.x.type);
  requireVector("layerNorm's mean", a.mean, rows(a.x), a.x.type);
  requireVector("layerNorm's rstd", a.rstd, rows(a.x), a.x.type);
  dispatch(a.x, [&](const auto& leaves, auto zero) {
    using T = decltype(zero);
    leaves.layerNorm(a.x.as<T>(), a.weight.as<T>(), a.bias.as<T>(), a.y.as<T>(), a.mean.as<T>(),
                     a.rstd.as<T>(), rows(a.x), width(a.x), static_cast<T>(a.epsilon));
  });
}

void HostKernels::layerNormBackward(const LayerNormBackwardArgs& a) {
  requireSame("layerNormBackward", a.dy, a.x, a.dx);
  if (a.residual.data != nullptr) requireSame("layerNormBackward's residual", a.dy, a.residual);
  requireVector("layerNormBackward's weight", a.weight, width(a.x), a.x.type);
  requireVector("layerNormBackward's mean", a.mean, rows(a.x), a.x.type);
  requireVector("layerNormBackward's rstd", a.rstd, rows(a.x), a.x.type);
  dispatch(a.x, [&](const auto& leaves, auto zero) {
    using T = decltype(zero);
    const T* residual = a.residual.data == nullptr ? nullptr : a.residual.as<T>();
    leaves.layerNormBackward(a.dy.as<T>(), a.x.as<T>(), a.weight.as<T>(), a.mean.as<T>(),
                             a.rstd.as<T>(), residual, a.dx.as<T>(), rows(a.x), width(a.x));
  });
}

void HostKernels::layerNormWeights(const LayerNormWeightArgs& a) {
  requireSame("layerNormWeights", a.dy, a.x);
  requireVector("layerNormWeights' mean", a.mean, rows(a.x), a.x.type);
  requireVector("layerNormWeights' rstd", a.rstd, rows(a.x), a.x.type);
  requireVector("layerNormWeights' dWeight", a.dWeight, width(a.x), a.x.type);
  requireVector("layerNormWeights' dBias", a.dBias, width(a.x), a.x.type);
  dispatch(a.x, [&](const auto& leaves, auto zero) {
    using T = decltype(zero);
    leaves.layerNormWeights(a.dy.as<T>(), a.x.as<T>(), a.mean.as<T>(), a.rstd.as<T>(),
                            a.dWeight.as<T>(), a.dBias.as<T>(), rows(a.x), width(a.x),
                            a.betaWeight != 0, a.betaBias != 0);
  });
}

void HostKernels::gelu(const Tensor& x, const Tensor& y) {
  requireSame("gelu", x, y);
  dispatch(x, [&](const auto& leaves, auto zero) {
    using T = decltype(zero);
    leaves.gelu(x.as<T>(), y.as<T>(), x.count());
  });
}

void HostKernels::geluBackward(const Tensor& dy, const Tensor& x, const Tensor& dx) {
  requireSame("geluBackward", dy, x, dx);
  dispatch(x, [&](const auto& leaves, auto zero) {
    using T = decltype(zero);
    leaves.geluBackward(dy.as<T>(), x.as<T>(), dx.as<T>(), x.count());
  });
}

void HostKernels::attention(const AttentionArgs& args, Arena& scratch) {
  dispatch(args.out, [&](const auto& leaves, auto) { host::attention(args, leaves, scratch); });
}

void HostKernels::attentionBackward(const AttentionBackwardArgs& args, Arena& scratch) {
  dispatch(args.out,
           [&](const auto& leaves, auto) { host::attentionBackward(args, leaves, scratch); });
}

void HostKernels::embedding(const EmbeddingArgs& a) {
  const int64_t batch = a.tokenIds.shape[0], context = a.tokenIds.shape[1], w = width(a.tokens);
  requireIds("embedding", a.tokenIds, batch * context);
  requireContiguous("embedding", {a.tokens, a.positions, a.x});
  require(a.x.shape == Shape({batch, context, w}) && width(a.positions) == w &&
              a.positions.shape[0] >= context,
          "embedding: ids ", a.tokenIds, ", tokens ", a.tokens, ", positions ", a.positions,
          ", result ", a.x);
  dispatch(a.x, [&](const auto& leaves, auto zero) {
    using T = decltype(zero);
    const int32_t* ids = a.tokenIds.as<int32_t>();
    T* x = a.x.as<T>();
    for (int64_t i = 0; i < batch * context; ++i, x += w) {
      requireId("embedding", ids[i], 0, a.tokens.shape[0]);
      std::memcpy(x, a.tokens.as<T>() + ids[i] * w, static_cast<size_t>(w) * sizeof(T));
      leaves.add(x, a.positions.as<T>() + i % context * w, w);
    }
  });
}

void HostKernels::embeddingWeights(const EmbeddingWeightArgs& a) {
  const int64_t batch = a.tokenIds.shape[0], context = a.tokenIds.shape[1], w = width(a.dTokens);
  requireIds("embeddingWeights", a.tokenIds, batch * context);
  requireContiguous("embeddingWeights", {a.dx, a.dTokens, a.dPositions});
  require(a.dx.shape == Shape({batch, context, w}) && width(a.dPositions) == w &&
              a.dPositions.shape[0] >= context,
          "embeddingWeights: ids ", a.tokenIds, ", dx ", a.dx);
  if (a.betaTokens == 0) fillZero(a.dTokens);
  if (a.betaPositions == 0) fillZero(a.dPositions);
  dispatch(a.dx, [&](const auto& leaves, auto zero) {
    using T = decltype(zero);
    const int32_t* ids = a.tokenIds.as<int32_t>();
    const T* dx = a.dx.as<T>();
    for (int64_t i = 0; i < batch * context; ++i, dx += w) {
      requireId("embeddingWeights", ids[i], 0, a.dTokens.shape[0]);
      leaves.add(a.dTokens.as<T>() + ids[i] * w, dx, w);
      leaves.add(a.dPositions.as<T>() + i % context * w, dx, w);
    }
  });
}

double HostKernels::crossEntropy(const CrossEntropyArgs& a) {
  requireIds("crossEntropy", a.labels, rows(a.logits));
  requireContiguous("crossEntropy", {a.logits});
  double total = 0;
  dispatch(a.logits, [&](const auto& leaves, auto zero) {
    using T = decltype(zero);
    const int64_t w = width(a.logits);
    const int32_t* labels = a.labels.as<int32_t>();
    T* row = a.logits.as<T>();
    for (int64_t r = 0; r < rows(a.logits); ++r, row += w) {
      requireId("crossEntropy", labels[r], -1, w);
      if (labels[r] >= 0)
        total += leaves.crossEntropy(row, w, labels[r], static_cast<T>(a.scale), a.gradient);
      else if (a.gradient)
        std::memset(row, 0, static_cast<size_t>(w) * sizeof(T));
    }
  });
  return total;
}

void HostKernels::adamW(const AdamWArgs& a) {
  requireSame("adamW", a.weight, a.gradient, a.first, a.second);
  dispatch(a.weight, [&](const auto& leaves, auto zero) {
    using T = decltype(zero);
    const host::AdamWStep<T> step{T(a.gradientScale),   T(a.learningRate),   T(a.beta1),
                                  T(a.beta2),           T(a.epsilon),        T(a.weightDecay),
                                  T(1 / a.correction1), T(1 / a.correction2)};
    leaves.adamW(a.weight.as<T>(), a.gradient.as<T>(), a.first.as<T>(), a.second.as<T>(),
                 a.weight.count(), step);
  });
}

void HostKernels::sgd(const SgdArgs& a) {
  requireSame("sgd", a.weight, a.gradient);
  dispatch(a.weight, [&](const auto& leaves, auto zero) {
    using T = decltype(zero);
    leaves.sgd(a.weight.as<T>(), a.gradient.as<T>(), a.weight.count(), T(a.gradientScale),
               T(a.learningRate), T(a.weightDecay));
  });
}

void HostKernels::addSquares(const Tensor& x, ExactSum& sum) {
  requireContiguous("addSquares", {x});
  dispatch(x, [&](const auto&, auto zero) {
    using T = decltype(zero);
    sum.addSquares(std::span<const T>(x.as<T>(), static_cast<size_t>(x.count())));
  });
}

}  // namespace tutti::parallel
