#include "parallel/kernels/host/routing.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace tutti::parallel::host {

namespace {

/// One row: the softmax of its logits, and the logarithm of their sum of exponentials.
template <class T>
double softmax(const T* logits, int64_t count, T* probabilities) {
  const double largest = *std::max_element(logits, logits + count);
  double sum = 0;
  for (int64_t e = 0; e < count; ++e) sum += std::exp(logits[e] - largest);
  for (int64_t e = 0; e < count; ++e)
    probabilities[e] = static_cast<T>(std::exp(logits[e] - largest) / sum);
  return largest + std::log(sum);
}

/// The k largest, in descending order; of equal ones the first.
template <class T>
void largestOf(const T* values, int64_t count, int64_t k, int32_t* chosen) {
  for (int64_t j = 0; j < k; ++j) {
    int64_t best = -1;
    for (int64_t e = 0; e < count; ++e)
      if (std::find(chosen, chosen + j, e) == chosen + j && (best < 0 || values[e] > values[best]))
        best = e;
    chosen[j] = static_cast<int32_t>(best);
  }
}

int64_t checked(const char* operation, int32_t value, int64_t lowest, int64_t end) {
  require(value >= lowest && value < end, operation, ": ", value, " is not in [", lowest, ", ", end,
          ")");
  return value;
}

/// Calls visit(choice, expert, at) for each choice, in order: it counts at that element of
/// [sequences, 2, experts], whose sequences and experts are those of `counts`.
template <class Visit>
void forEachChoice(const char* operation, const Tensor& all, const Tensor& counts, int64_t early,
                   const Visit& visit) {
  const auto* const chosen = all.as<int32_t>();
  const int64_t k = all.shape[1], experts = counts.shape[2];
  const int64_t ofOne = all.count() == 0 ? 1 : all.shape[0] / counts.shape[0];
  for (int64_t i = 0; i < all.count(); ++i) {
    const int64_t row = i / k, piece = row % ofOne < early ? 0 : 1;
    const int64_t expert = checked(operation, chosen[i], 0, experts);
    visit(i, expert, static_cast<size_t>((row / ofOne * 2 + piece) * experts + expert));
  }
}

/// Fills the choices of whole sequences; returns those before each of the two pieces that are here,
/// [sequences, 2, experts].
std::vector<int32_t> sumOfPieces(const PlaceTokensArgs& a) {
  const int64_t sequences = a.pieces.shape[0], pieces = a.pieces.shape[1],
                experts = a.pieces.shape[2];
  std::vector<int32_t> before(static_cast<size_t>(sequences * 2 * experts));
  const int32_t* counts = a.pieces.as<int32_t>();
  std::fill_n(a.choices.as<int32_t>(), a.choices.count(), 0);
  for (int64_t s = 0; s < sequences; ++s) {
    int32_t* const sums = a.choices.as<int32_t>() + s * experts;
    for (int64_t p = 0; p < pieces; ++p, counts += experts) {
      for (int64_t i = 0; i < 2; ++i)
        if (a.own[static_cast<size_t>(i)] == p)
          std::copy_n(sums, experts, before.data() + (s * 2 + i) * experts);
      std::transform(sums, sums + experts, counts, sums, std::plus<>());
    }
  }
  return before;
}

/// Calls visit(row, index of the choice, place) for each choice that is not dropped.
template <class Visit>
void forEachPlace(const char* operation, const Tensor& places, int64_t end, const Visit& visit) {
  const auto* const all = places.as<int32_t>();
  const int64_t k = places.shape[1];
  for (int64_t i = 0; i < places.count(); ++i)
    if (const int64_t place = checked(operation, all[i], -1, end); place >= 0)
      visit(i / k, i, place);
}

}  // namespace

template <class T>
void route(const RouteArgs& a) {
  const int64_t experts = a.logits.shape[1], k = a.chosen.shape[1];
  for (int64_t r = 0; r < a.logits.shape[0]; ++r) {
    T* const probabilities = a.probabilities.as<T>() + r * experts;
    int32_t* const chosen = a.chosen.as<int32_t>() + r * k;
    T* const weights = a.weights.as<T>() + r * k;
    a.logSumExp.as<T>()[r] =
        static_cast<T>(softmax(a.logits.as<T>() + r * experts, experts, probabilities));
    largestOf(probabilities, experts, k, chosen);
    double sum = 0;
    for (int64_t j = 0; j < k; ++j) sum += probabilities[chosen[j]];
    for (int64_t j = 0; j < k; ++j)
      weights[j] = static_cast<T>(probabilities[chosen[j]] / (a.normalized ? sum : 1));
  }
}

void countChoices(const CountChoicesArgs& a) {
  auto* const counts = a.choices.as<int32_t>();
  std::fill_n(counts, a.choices.count(), 0);
  forEachChoice("countChoices: expert", a.chosen, a.choices, a.early,
                [&](int64_t, int64_t, size_t at) { ++counts[at]; });
}

/// Once to count, and then again to give each its place.
void placeTokens(const PlaceTokensArgs& a) {
  std::vector<int32_t> before = sumOfPieces(a);
  const auto* const chosen = a.chosen.as<int32_t>();
  auto* const places = a.places.as<int32_t>();
  std::fill(a.loads.begin(), a.loads.end(), 0);
  forEachChoice("placeTokens: expert", a.chosen, a.pieces, a.early,
                [&](int64_t i, int64_t expert, size_t at) {
                  const bool kept = a.capacity == 0 || before[at]++ < a.capacity;
                  places[i] = kept ? 0 : -1;
                  a.loads[static_cast<size_t>(expert)] += kept;
                });
  std::vector<int64_t> next(a.loads.size(), 0);
  for (size_t e = 1; e < next.size(); ++e) next[e] = next[e - 1] + a.loads[e - 1];
  for (int64_t i = 0; i < a.chosen.count(); ++i)
    if (places[i] == 0) places[i] = static_cast<int32_t>(next[static_cast<size_t>(chosen[i])]++);
}

template <class T>
RouterLosses routerGradient(const RouterGradientArgs& a) {
  const int64_t count = a.dLogits.shape[0], experts = a.dLogits.shape[1], k = a.chosen.shape[1];
  const int64_t ofOne = count == 0 ? 1 : count / a.choices.shape[0];  // rows of a sequence
  const double tokens = static_cast<double>(a.length), perToken = 1 / tokens;
  const double perShare =
      static_cast<double>(experts) * perToken / (static_cast<double>(k) * tokens);
  RouterLosses losses;
  std::vector<double> slopes(static_cast<size_t>(experts));  // of the probabilities
  for (int64_t r = 0; r < count; ++r) {
    const T* const probabilities = a.probabilities.as<T>() + r * experts;
    const T* const weights = a.weights.as<T>() + r * k;
    const T* const dWeights = a.dWeights.as<T>() + r * k;
    const int32_t* const chosen = a.chosen.as<int32_t>() + r * k;
    const int32_t* const choices = a.choices.as<int32_t>() + r / ofOne * experts;
    for (int64_t e = 0; e < experts; ++e) {
      const double slope = perShare * choices[e];
      losses.balance += slope * probabilities[e];
      slopes[static_cast<size_t>(e)] = a.balance * slope;
    }
    double sum = 0, mean = 0;  // of the chosen probabilities, of their slopes by weight
    for (int64_t j = 0; j < k; ++j) {
      sum += probabilities[checked("routerGradient: expert", chosen[j], 0, experts)];
      mean += static_cast<double>(dWeights[j]) * weights[j];
    }
    for (int64_t j = 0; j < k; ++j)
      slopes[static_cast<size_t>(chosen[j])] +=
          a.normalized ? (dWeights[j] - mean) / sum : dWeights[j];
    const double z = a.logSumExp.as<T>()[r];
    losses.z += z * z * perToken;
    double dot = 0;
    for (int64_t e = 0; e < experts; ++e) dot += slopes[static_cast<size_t>(e)] * probabilities[e];
    for (int64_t e = 0; e < experts; ++e)
      a.dLogits.as<T>()[r * experts + e] = static_cast<T>(
          probabilities[e] * (slopes[static_cast<size_t>(e)] - dot + a.z * 2 * z * perToken));
  }
  return losses;
}

template <class T>
void spreadRows(const SpreadRowsArgs& a) {
  const int64_t width = a.x.shape[1];
  const T* const weights = a.weights.data == nullptr ? nullptr : a.weights.as<T>();
  forEachPlace("spreadRows: place", a.places, a.y.shape[0], [&](int64_t r, int64_t i, int64_t to) {
    const T weight = weights == nullptr ? T(1) : weights[i];
    std::transform(a.x.as<T>() + r * width, a.x.as<T>() + (r + 1) * width, a.y.as<T>() + to * width,
                   [&](T value) { return weight * value; });
  });
}

template <class T>
void combineRows(const CombineRowsArgs& a) {
  const int64_t width = a.y.shape[1];
  const T* const weights = a.weights.data == nullptr ? nullptr : a.weights.as<T>();
  std::fill_n(a.y.as<T>(), a.y.count(), T(0));
  forEachPlace("combineRows: place", a.places, a.x.shape[0],
               [&](int64_t r, int64_t i, int64_t from) {
                 const T weight = weights == nullptr ? T(1) : weights[i];
                 T* const y = a.y.as<T>() + r * width;
                 std::transform(y, y + width, a.x.as<T>() + from * width, y,
                                [&](T sum, T value) { return sum + weight * value; });
               });
}

template <class T>
void rowDots(const RowDotsArgs& a, const ElementwiseKernels<T>& elementwise) {
  const int64_t width = a.x.shape[1];
  std::fill_n(a.dots.as<T>(), a.dots.count(), T(0));
  forEachPlace("rowDots: place", a.places, a.y.shape[0], [&](int64_t r, int64_t i, int64_t of) {
    a.dots.as<T>()[i] = elementwise.dot(a.x.as<T>() + r * width, a.y.as<T>() + of * width, width);
  });
}

template void route<float>(const RouteArgs&);
template void route<double>(const RouteArgs&);
template RouterLosses routerGradient<float>(const RouterGradientArgs&);
template RouterLosses routerGradient<double>(const RouterGradientArgs&);
template void spreadRows<float>(const SpreadRowsArgs&);
template void spreadRows<double>(const SpreadRowsArgs&);
template void combineRows<float>(const CombineRowsArgs&);
template void combineRows<double>(const CombineRowsArgs&);
template void rowDots<float>(const RowDotsArgs&, const ElementwiseKernels<float>&);
template void rowDots<double>(const RowDotsArgs&, const ElementwiseKernels<double>&);

}  // namespace tutti::parallel::host
