#pragma once

// A router of experts. Of a row's few logits one thread computes all, in float64 as the host does.
// Places are given by a warp for each expert, which goes through all choices 32 at a time and
// counts its own by votes, so that they are in the order of rows whoever runs first. Experts and
// places that are not there are passed over: findOutside() tells the host, which refuses the call.
//
// Bound: of routing arithmetic in float64, of the rows that are moved the memory's bandwidth.

#include "parallel/kernels/cuda/elements_device.cuh"
#include "parallel/kernels/cuda/joined_device.cuh"
#include "parallel/kernels/cuda/launches.h"
#include "parallel/kernels/cuda/placed_rows_device.cuh"

namespace tutti::parallel::cuda {

/// Fills a row of x.wide; returns the logarithm of the sum of exponentials.
template <class T>
TUTTI_DEVICE double softmaxOfRow(const Route& x, int64_t first) {
  double largest = load<T>(x.logits, first), sum = 0;
  for (int32_t e = 1; e < x.experts; ++e)
    largest = Largest::join(largest, double(load<T>(x.logits, first + e)));
  for (int32_t e = 0; e < x.experts; ++e)
    sum += exp(double(load<T>(x.logits, first + e)) - largest);
  for (int32_t e = 0; e < x.experts; ++e) {
    const T probability = T(exp(double(load<T>(x.logits, first + e)) - largest) / sum);
    store<T>(x.wide, first + e, probability);
    store<T>(x.probabilities, first + e, probability);
  }
  return largest + log(sum);
}

/// Of the experts that are not among the `count` chosen ones the most probable, of equal ones the
/// first.
template <class T>
TUTTI_DEVICE int32_t mostProbable(const Route& x, int64_t first, const int32_t* chosen,
                                  int32_t count) {
  int32_t best = -1;
  T most = 0;
  for (int32_t e = 0; e < x.experts; ++e) {
    bool taken = false;
    for (int32_t j = 0; j < count; ++j) taken = taken || chosen[j] == e;
    const T probability = load<T>(x.wide, first + e);
    if (taken || (best >= 0 && !(probability > most))) continue;
    best = e;
    most = probability;
  }
  return best;
}

template <class T>
__global__ void route(const __grid_constant__ Route x) {
  const int64_t row = firstElement();
  if (row >= x.rows) return;
  const int64_t first = row * x.experts;
  int32_t* const chosen = x.chosen + row * x.choices;
  store<T>(x.logSumExp, row, T(softmaxOfRow<T>(x, first)));
  double sum = 0;
  for (int32_t j = 0; j < x.choices; ++j) {
    chosen[j] = mostProbable<T>(x, first, chosen, j);
    sum += double(load<T>(x.wide, first + chosen[j]));
  }
  for (int32_t j = 0; j < x.choices; ++j)
    store<T>(x.weights, row * x.choices + j,
             T(double(load<T>(x.wide, first + chosen[j])) / (x.normalized != 0 ? sum : 1)));
}

/// Of a choice, which sequence and piece it is of: their numbers ascend with those of choices.
TUTTI_DEVICE int32_t groupOf(const Pieces& x, int32_t choice) {
  const int32_t row = choice / x.choices;
  return row / x.rowsOfSequence * 2 + (row % x.rowsOfSequence < x.early ? 0 : 1);
}

__global__ inline void countChoices(const __grid_constant__ CountChoices x) {
  for (int64_t i = firstElement(); i < x.count; i += elementStep()) {
    const int32_t expert = x.chosen[i];
    if (expert >= 0 && expert < x.pieces.experts)
      atomicAdd(&x.counts[int64_t(groupOf(x.pieces, int32_t(i))) * x.pieces.experts + expert], 1);
  }
}

/// Over the pieces of a sequence, from the first on.
TUTTI_DEVICE int32_t choicesOf(const PlaceTokens& x, int32_t sequence, int32_t expert,
                               int32_t pieces) {
  int32_t sum = 0;
  for (int32_t piece = 0; piece < pieces; ++piece)
    sum += x.counts[(int64_t(sequence) * x.piecesOfSequence + piece) * x.pieces.experts + expert];
  return sum;
}

__global__ inline void sumPieces(const __grid_constant__ PlaceTokens x) {
  const int64_t i = firstElement();
  if (i >= int64_t(x.sequences) * x.pieces.experts) return;
  x.choices[i] = choicesOf(x, int32_t(i / x.pieces.experts), int32_t(i % x.pieces.experts),
                           x.piecesOfSequence);
}

/// What a warp has counted of one expert.
struct Counted {
  int32_t kept = 0;                ///< choices with a place
  int32_t group = -1, within = 0;  ///< the last group, and choices in it
};

/// 32 choices: those of `expert` get their places among those of the same, or -1.
TUTTI_DEVICE void placeChoices(const PlaceTokens& x, int32_t expert, int32_t first,
                               Counted& counted) {
  const int32_t i = first + laneOf();
  const bool isOwn = i < x.count && x.chosen[i] == expert;
  const int32_t group = groupOf(x.pieces, min(i, x.count - 1));
  const unsigned earlier = (1u << laneOf()) - 1, same = __match_any_sync(kAllLanes, group);
  const unsigned own = __ballot_sync(kAllLanes, isOwn) & same;
  const int32_t before = group == counted.group ? counted.within : 0;
  bool isKept = isOwn;
  if (isOwn && x.capacity > 0)
    isKept = choicesOf(x, group / 2, expert, x.own[group % 2]) + before + __popc(own & earlier) <
             x.capacity;
  const unsigned kept = __ballot_sync(kAllLanes, isKept);
  if (isOwn) x.places[i] = isKept ? counted.kept + __popc(kept & earlier) : -1;
  counted.kept += __popc(kept);
  counted.within = __shfl_sync(kAllLanes, before + __popc(own), 31);
  counted.group = __shfl_sync(kAllLanes, group, 31);
}

/// A warp for each expert.
__global__ inline void placeByExpert(const __grid_constant__ PlaceTokens x) {
  const int32_t expert = int32_t((blockIdx.x * blockDim.x + threadIdx.x) / 32);
  if (expert >= x.pieces.experts) return;
  Counted counted;
  for (int32_t first = 0; first < x.count; first += 32) placeChoices(x, expert, first, counted);
  if (laneOf() == 0) x.loads[expert] = counted.kept;
}

/// Behind the choices of all experts before.
__global__ inline void placeExperts(const __grid_constant__ PlaceTokens x) {
  for (int64_t i = firstElement(); i < x.count; i += elementStep()) {
    const int32_t expert = x.chosen[i];
    if (expert < 0 || expert >= x.pieces.experts || x.places[i] < 0) continue;
    int64_t before = 0;
    for (int32_t e = 0; e < expert; ++e) before += x.loads[e];
    x.places[i] += int32_t(before);
  }
}

/// The slopes of the probabilities, by the weights of one row: of those that were chosen.
template <class T>
struct WeightSlopes {
  const RouterGradient& x;
  const int64_t first;  ///< of the row's choices
  double sum = 0, mean = 0;

  TUTTI_DEVICE WeightSlopes(const RouterGradient& gradient, int64_t row)
      : x(gradient), first(row * gradient.choicesOfRow) {
    for (int32_t j = 0; j < x.choicesOfRow; ++j) {
      const int32_t expert = x.chosen[first + j];
      if (expert < 0 || expert >= x.experts) continue;
      sum += double(load<T>(x.probabilities, row * x.experts + expert));
      mean += double(load<T>(x.dWeights, first + j)) * double(load<T>(x.weights, first + j));
    }
  }
  TUTTI_DEVICE double of(int32_t expert) const {
    double slope = 0;
    for (int32_t j = 0; j < x.choicesOfRow; ++j) {
      const double dWeight = load<T>(x.dWeights, first + j);
      if (x.chosen[first + j] == expert)
        slope += x.normalized != 0 ? (dWeight - mean) / sum : dWeight;
    }
    return slope;
  }
};

template <class T>
__global__ void routerGradient(const __grid_constant__ RouterGradient x) {
  const int64_t row = firstElement();
  if (row >= x.rows) return;
  const double perToken = 1 / x.length;
  const double perShare = double(x.experts) * perToken / (double(x.choicesOfRow) * x.length);
  const WeightSlopes<T> ofWeights(x, row);
  const int32_t* const choices = x.choices + row / x.rowsOfSequence * x.experts;
  double balance = 0, dot = 0;
  for (int32_t e = 0; e < x.experts; ++e) {
    const double probability = load<T>(x.probabilities, row * x.experts + e);
    const double slope = perShare * choices[e];
    balance += slope * probability;
    dot += (x.balance * slope + ofWeights.of(e)) * probability;
  }
  const double z = load<T>(x.logSumExp, row);
  for (int32_t e = 0; e < x.experts; ++e) {
    const double probability = load<T>(x.probabilities, row * x.experts + e);
    const double slope = x.balance * (perShare * choices[e]) + ofWeights.of(e);
    store<T>(x.dLogits, row * x.experts + e,
             T(probability * (slope - dot + x.z * 2 * z * perToken)));
  }
  x.balances[row] = balance;
  x.zs[row] = z * z * perToken;
}

/// A block for each choice.
template <class T>
__global__ void spreadRows(const __grid_constant__ SpreadRows x) {
  const int64_t choice = blockIdx.x, from = choice / x.choices * x.width;
  const int64_t to = placedRow(x, choice) * x.width;
  if (to < 0) return;
  const T weight = weightOf<T>(x, choice);
  for (int32_t column = int32_t(threadIdx.x); column < x.width; column += int32_t(blockDim.x))
    store<T>(x.placed, to + column, weight * load<T>(x.rows, from + column));
}

/// A block for each row.
template <class T>
__global__ void combineRows(const __grid_constant__ CombineRows x) {
  const int64_t first = int64_t(blockIdx.x) * x.choices;
  for (int32_t column = int32_t(threadIdx.x); column < x.width; column += int32_t(blockDim.x)) {
    T sum = 0;
    for (int64_t choice = first; choice < first + x.choices; ++choice) {
      const int64_t from = placedRow(x, choice);
      if (from >= 0)
        sum = sum + weightOf<T>(x, choice) * load<T>(x.placed, from * x.width + column);
    }
    store<T>(x.rows, int64_t(blockIdx.x) * x.width + column, sum);
  }
}

/// A block for each choice.
template <class T>
__global__ void rowDots(const __grid_constant__ RowDots x) {
  const int64_t choice = blockIdx.x, row = choice / x.choices * x.width;
  const int64_t other = placedRow(x, choice);
  T sum = 0;
  for (int32_t column = int32_t(threadIdx.x); other >= 0 && column < x.width;
       column += int32_t(blockDim.x))
    sum += load<T>(x.rows, row + column) * load<T>(x.placed, other * x.width + column);
  sum = joinBlock<Sum>(sum);
  if (threadIdx.x == 0) store<T>(x.weights, choice, sum);
}

}  // namespace tutti::parallel::cuda
