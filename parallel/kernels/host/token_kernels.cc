// The host's kernels that look rows up: token embeddings, the loss, and the routing of tokens.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "parallel/kernels/host/host_kernels.h"
#include "parallel/kernels/host/positions.h"
#include "parallel/kernels/host/routing.h"
#include "parallel/kernels/host/staging.h"
#include "parallel/kernels/operands.h"

namespace tutti::parallel {

using host::Positions;
using host::requireId;
using host::Staging;

namespace {

/// A vocabulary, and the rows of it that are here.
class HostVocabulary {
 public:
  /// `here` of them, from `firstId` on, of `all`; 0: there are no others.
  HostVocabulary(const char* operation, int64_t here, int64_t firstId, int64_t all)
      : operation_(operation), first_(firstId), here_(here), all_(all == 0 ? here : all) {}
  /// The row of `id`, or -1 where it is elsewhere. Throws InvalidArgument when there is none.
  int64_t rowOf(int64_t id) const {
    requireId(operation_, id, 0, all_);
    return id >= first_ && id < first_ + here_ ? id - first_ : -1;
  }
  /// The same of a label: -1 also where that is -1.
  int64_t columnOf(int64_t label) const { return label == -1 ? -1 : rowOf(label); }

 private:
  const char* const operation_;
  const int64_t first_, here_, all_;
};

/// A row's softmax, put together from what each rank has of it.
struct RowStatistics {
  double largest = 0, sum = 0, chosen = 0;

  /// `ranks` times a largest logit, a sum and a label's logit, `stride` elements apart.
  template <class T>
  RowStatistics(const T* of, int64_t stride, int64_t ranks) : largest(of[0]) {
    for (int64_t rank = 1; rank < ranks; ++rank)
      largest = std::max<double>(largest, of[rank * stride]);
    for (int64_t rank = 0; rank < ranks; ++rank, of += stride) {
      sum += of[1] * std::exp(of[0] - largest);
      chosen += of[2];
    }
  }
  double loss() const { return std::log(sum) - (chosen - largest); }
};

}  // namespace

void HostKernels::embedding(const EmbeddingArgs& a) {
  if (Staging s; Staging::needed({a.tokens, a.positions, a.x})) {
    auto wide = a;
    s.in(wide.tokens);
    s.in(wide.positions);
    s.out(wide.x);
    return embedding(wide);
  }
  requireOperands(a);
  const int64_t batch = a.tokenIds.shape[0], context = a.tokenIds.shape[1], w = width(a.tokens);
  const bool learned = a.positions.data != nullptr;
  const Positions positions("embedding", learned ? a.at : Tensor{}, context,
                            learned ? a.positions.shape[0] : context);
  const HostVocabulary vocabulary("embedding", a.tokens.shape[0], a.firstId, a.vocabulary);
  dispatch(a.x, [&](const auto& elementwise, auto zero) {
    using T = decltype(zero);
    const int32_t* ids = a.tokenIds.as<int32_t>();
    const size_t rowBytes = static_cast<size_t>(w) * sizeof(T);
    T* x = a.x.as<T>();
    for (int64_t i = 0; i < batch * context; ++i, x += w) {
      if (const int64_t row = vocabulary.rowOf(ids[i]); row >= 0)
        std::memcpy(x, a.tokens.as<T>() + row * w, rowBytes);
      else
        std::memset(x, 0, rowBytes);
      if (learned) elementwise.add(x, a.positions.as<T>() + positions.of(i) * w, w);
    }
  });
}

void HostKernels::embeddingWeights(const EmbeddingWeightArgs& a) {
  if (Staging s; Staging::needed({a.dx, a.dTokens, a.dPositions})) {
    auto wide = a;
    s.in(wide.dx);
    s.result(wide.dTokens, a.betaTokens);
    s.result(wide.dPositions, a.betaPositions);
    return embeddingWeights(wide);
  }
  requireOperands(a);
  const int64_t batch = a.tokenIds.shape[0], context = a.tokenIds.shape[1], w = width(a.dTokens);
  const bool learned = a.dPositions.data != nullptr;
  const Positions positions("embeddingWeights", learned ? a.at : Tensor{}, context,
                            learned ? a.dPositions.shape[0] : context);
  const HostVocabulary vocabulary("embeddingWeights", a.dTokens.shape[0], a.firstId, a.vocabulary);
  if (a.betaTokens == 0) fillZero(a.dTokens);
  if (learned && a.betaPositions == 0) fillZero(a.dPositions);
  dispatch(a.dx, [&](const auto& elementwise, auto zero) {
    using T = decltype(zero);
    const int32_t* ids = a.tokenIds.as<int32_t>();
    const T* dx = a.dx.as<T>();
    for (int64_t i = 0; i < batch * context; ++i, dx += w) {
      if (const int64_t row = vocabulary.rowOf(ids[i]); row >= 0)
        elementwise.add(a.dTokens.as<T>() + row * w, dx, w);
      if (learned) elementwise.add(a.dPositions.as<T>() + positions.of(i) * w, dx, w);
    }
  });
}

void HostKernels::logitStatistics(const LogitStatisticsArgs& a) {
  if (Staging s; Staging::needed({a.logits, a.statistics})) {
    auto wide = a;
    s.in(wide.logits);
    s.out(wide.statistics);
    return logitStatistics(wide);
  }
  requireOperands(a);
  const int64_t count = a.labels.count(), w = width(a.logits), stride = rowStride(a.logits);
  const HostVocabulary vocabulary("logitStatistics", w, a.firstId, a.vocabulary);
  dispatch(a.logits, [&](const auto& elementwise, auto zero) {
    using T = decltype(zero);
    const int32_t* labels = a.labels.as<int32_t>();
    const T* row = a.logits.as<T>();
    T* to = a.statistics.as<T>();
    for (int64_t r = 0; r < count; ++r, row += stride, to += 3) {
      const int64_t label = vocabulary.columnOf(labels[r]);
      elementwise.logitStatistics(row, w, &to[0], &to[1]);
      to[2] = label >= 0 ? row[label] : T(0);
    }
  });
}

double HostKernels::crossEntropy(const CrossEntropyArgs& a) {
  if (Staging s; Staging::needed({a.logits, a.statistics})) {
    auto wide = a;
    s.inOut(wide.logits);
    s.in(wide.statistics);
    return crossEntropy(wide);
  }
  requireOperands(a);
  const int64_t count = a.labels.count();
  const bool isWhole = a.statistics.data == nullptr;
  const int64_t ranks = isWhole ? 1 : a.statistics.shape[0];
  const int64_t w = width(a.logits), stride = rowStride(a.logits);
  const HostVocabulary vocabulary("crossEntropy", w, a.firstId, a.vocabulary);
  double total = 0;
  dispatch(a.logits, [&](const auto& elementwise, auto zero) {
    using T = decltype(zero);
    const int32_t* labels = a.labels.as<int32_t>();
    T* row = a.logits.as<T>();
    for (int64_t r = 0; r < count; ++r, row += stride) {
      const int64_t label = vocabulary.columnOf(labels[r]);
      if (labels[r] < 0) {
        if (a.gradient) std::fill_n(row, w, T(0));
        continue;
      }
      T own[3];
      if (isWhole) {
        elementwise.logitStatistics(row, w, &own[0], &own[1]);
        own[2] = row[label];
      }
      const RowStatistics joined(isWhole ? own : a.statistics.as<T>() + 3 * r, 3 * count, ranks);
      total += joined.loss();
      if (!a.gradient) continue;
      elementwise.scaledExp(row, w, static_cast<T>(joined.largest),
                            static_cast<T>(a.scale) / static_cast<T>(joined.sum));
      if (label >= 0) row[label] -= static_cast<T>(a.scale);
    }
  });
  return total;
}

void HostKernels::route(const RouteArgs& a) {
  if (Staging s; Staging::needed({a.logits, a.probabilities, a.logSumExp, a.weights})) {
    auto wide = a;
    s.in(wide.logits);
    s.out(wide.probabilities);
    s.out(wide.logSumExp);
    s.out(wide.weights);
    return route(wide);
  }
  requireOperands(a);
  dispatch(a.logits, [&](const auto&, auto zero) { host::route<decltype(zero)>(a); });
}

void HostKernels::countChoices(const CountChoicesArgs& a) {
  requireOperands(a);
  host::countChoices(a);
}

void HostKernels::placeTokens(const PlaceTokensArgs& a) {
  requireOperands(a);
  host::placeTokens(a);
}

RouterLosses HostKernels::routerGradient(const RouterGradientArgs& a) {
  if (Staging s;
      Staging::needed({a.dWeights, a.probabilities, a.logSumExp, a.weights, a.dLogits})) {
    auto wide = a;
    s.in(wide.dWeights);
    s.in(wide.probabilities);
    s.in(wide.logSumExp);
    s.in(wide.weights);
    s.out(wide.dLogits);
    return routerGradient(wide);
  }
  requireOperands(a);
  RouterLosses losses;
  dispatch(a.dLogits,
           [&](const auto&, auto zero) { losses = host::routerGradient<decltype(zero)>(a); });
  return losses;
}

void HostKernels::spreadRows(const SpreadRowsArgs& a) {
  if (Staging s; Staging::needed({a.x, a.weights, a.y})) {
    auto wide = a;
    s.in(wide.x);
    s.in(wide.weights);
    s.inOut(wide.y);
    return spreadRows(wide);
  }
  requireOperands(a);
  dispatch(a.x, [&](const auto&, auto zero) { host::spreadRows<decltype(zero)>(a); });
}

void HostKernels::combineRows(const CombineRowsArgs& a) {
  if (Staging s; Staging::needed({a.x, a.weights, a.y})) {
    auto wide = a;
    s.in(wide.x);
    s.in(wide.weights);
    s.out(wide.y);
    return combineRows(wide);
  }
  requireOperands(a);
  dispatch(a.y, [&](const auto&, auto zero) { host::combineRows<decltype(zero)>(a); });
}

void HostKernels::rowDots(const RowDotsArgs& a) {
  if (Staging s; Staging::needed({a.x, a.y, a.dots})) {
    auto wide = a;
    s.in(wide.x);
    s.in(wide.y);
    s.out(wide.dots);
    return rowDots(wide);
  }
  requireOperands(a);
  dispatch(a.x, [&](const auto& elementwise, auto zero) {
    host::rowDots<decltype(zero)>(a, elementwise);
  });
}

}  // namespace tutti::parallel
