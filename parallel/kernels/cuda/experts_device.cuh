#pragma once

// A router of experts. Of a row's few logits a warp computes all, in float64 as the host does: a
// lane has every 32nd expert, and sums over experts are joined by a tree.
//
// Places are those of the order of choices, whoever runs first. Choices are cut into tiles, and for
// each tile and expert a warp counts that expert's own by votes, 32 choices at a time. One block
// then adds up tiles and experts, and again a warp for each tile and expert gives its own their
// places. An expert's capacity is of a sequence and piece: a tile may have several of these
// segments, of which the first may have begun in tiles before.
//
// Experts and places that are not there are passed over: findOutside() tells the host, which
// refuses the call.
//
// Bound: of routing arithmetic in float64, an exponential for each logit, and the latency of a few
// launches, for there are some MB at most; of places each choice is read once for each expert, from
// the caches. Of the rows that are moved the memory's bandwidth.

#include "parallel/kernels/cuda/elements_device.cuh"
#include "parallel/kernels/cuda/joined_device.cuh"
#include "parallel/kernels/cuda/launches.h"
#include "parallel/kernels/cuda/placed_rows_device.cuh"
#include "parallel/kernels/cuda/placing.h"

namespace tutti::parallel::cuda {

/// Of a warp's row: experts of a lane that it keeps numbers of in registers.
inline constexpr int kHeldExperts = 4;

/// Calls visit(expert) for every 32nd expert from `first` on.
template <class Visit>
TUTTI_DEVICE void forLane(int32_t first, int32_t experts, const Visit& visit) {
  for (int32_t e = first; e < experts; e += 32) visit(e);
}

/// The softmax of a row, of which each lane has its experts' part.
template <class T>
struct RoutedRow {
  const Route& x;
  const int64_t first;
  double powers[kHeldExperts] = {};  ///< exponentials, then probabilities
  double logSumExp;

  /// Fills the row of x.wide.
  TUTTI_DEVICE RoutedRow(const Route& route, int64_t row) : x(route), first(row * x.experts) {
    double largest = minusInfinity<double>(), sum = 0;
    forLane(laneOf(), x.experts, [&](int32_t e) { largest = Largest::join(logit(e), largest); });
    largest = joinWarp<Largest>(largest);
#pragma unroll
    for (int i = 0; i < kHeldExperts; ++i)
      if (const int32_t e = laneOf() + 32 * i; e < x.experts)
        sum += powers[i] = exp(logit(e) - largest);
    forLane(laneOf() + 32 * kHeldExperts, x.experts,
            [&](int32_t e) { sum += exp(logit(e) - largest); });
    sum = joinWarp<Sum>(sum);
    logSumExp = largest + log(sum);
    const double perPower = 1 / sum;
#pragma unroll
    for (int i = 0; i < kHeldExperts; ++i)
      if (const int32_t e = laneOf() + 32 * i; e < x.experts) {
        powers[i] *= perPower;
        keep(e, T(powers[i]));
      }
    forLane(laneOf() + 32 * kHeldExperts, x.experts,
            [&](int32_t e) { keep(e, T(exp(logit(e) - largest) * perPower)); });
  }
  TUTTI_DEVICE double logit(int32_t e) const { return load<T>(x.logits, first + e); }
  TUTTI_DEVICE void keep(int32_t e, T probability) const {
    store<T>(x.wide, first + e, probability);
    if (x.wide.data != x.probabilities.data) store<T>(x.probabilities, first + e, probability);
  }
  /// Calls visit(expert, probability) for this lane's.
  template <class Visit>
  TUTTI_DEVICE void forAll(const Visit& visit) const {
#pragma unroll
    for (int i = 0; i < kHeldExperts; ++i)
      if (const int32_t e = laneOf() + 32 * i; e < x.experts) visit(e, T(powers[i]));
    forLane(laneOf() + 32 * kHeldExperts, x.experts,
            [&](int32_t e) { visit(e, load<T>(x.wide, first + e)); });
  }
};

/// An expert in the order in which they are chosen: the most probable first, of equal ones the
/// first. All are equal where there is a NaN, for then there is nothing else.
template <class T>
struct ExpertCandidate {
  T probability = T(-1);
  int32_t expert = -1;
  TUTTI_DEVICE bool isBefore(const ExpertCandidate& other) const {
    if (other.expert < 0 || expert < 0) return expert >= 0;
    if (probability > other.probability) return true;
    return !(other.probability > probability) && expert < other.expert;
  }
};

/// Of the experts behind `last` the first one; behind none of all. All lanes get it.
template <class T>
TUTTI_DEVICE ExpertCandidate<T> chooseBehind(const RoutedRow<T>& row,
                                             const ExpertCandidate<T>& last) {
  ExpertCandidate<T> best;
  row.forAll([&](int32_t e, T probability) {
    const ExpertCandidate<T> own{probability, e};
    if ((last.expert < 0 || last.isBefore(own)) && own.isBefore(best)) best = own;
  });
  for (int bits = 16; bits > 0; bits /= 2) {
    const ExpertCandidate<T> other{__shfl_xor_sync(kAllLanes, best.probability, bits),
                                   __shfl_xor_sync(kAllLanes, best.expert, bits)};
    if (other.isBefore(best)) best = other;
  }
  return best;
}

/// A warp for each row.
template <class T>
__global__ void route(const __grid_constant__ Route x) {
  const int64_t row = firstElement() / 32;
  if (row >= x.rows) return;  // a whole warp
  const RoutedRow<T> routed(x, row);
  if (laneOf() == 0) store<T>(x.logSumExp, row, T(routed.logSumExp));
  // A lane keeps a choice, so that of 32 or fewer all are stored at once.
  double sum = 0;
  ExpertCandidate<T> last, own;
  for (int32_t j = 0; j < x.choices; ++j) {
    last = chooseBehind(routed, last);
    sum += double(last.probability);
    if (j % 32 == laneOf()) own = last;
    if (j % 32 == 31 || j == x.choices - 1) {
      const int32_t choice = j / 32 * 32 + laneOf();
      if (choice <= j) x.chosen[row * x.choices + choice] = own.expert;
    }
  }
  const double scale = x.normalized != 0 ? 1 / sum : 1;
  const auto weigh = [&](int32_t choice, T probability) {
    store<T>(x.weights, row * x.choices + choice, T(double(probability) * scale));
  };
  if (x.choices <= 32) {
    if (laneOf() < x.choices) weigh(laneOf(), own.probability);
    return;
  }
  last = {};
  for (int32_t j = 0; j < x.choices; ++j) {
    last = chooseBehind(routed, last);
    if (laneOf() == 0) weigh(j, last.probability);
  }
}

// Which sequence and piece a choice is of: their numbers ascend with those of choices.

TUTTI_DEVICE int32_t groupOf(const Pieces& x, int32_t choice) {
  const int32_t row = choice / x.choices;
  return row / x.rowsOfSequence * 2 + (row % x.rowsOfSequence < x.early ? 0 : 1);
}
/// Of the choices of a group the end.
TUTTI_DEVICE int64_t endOfGroup(const Pieces& x, int32_t group) {
  const int64_t row = int64_t(group / 2) * x.rowsOfSequence +
                      (group % 2 == 0 ? min(x.early, x.rowsOfSequence) : x.rowsOfSequence);
  return row * x.choices;
}

/// Of a block: it counts at once what its choices have in common with their group.
inline constexpr int32_t kCountedChoices = 4 * kThreads, kCountedExperts = 1024;

__global__ inline void __launch_bounds__(kThreads)
    countChoices(const __grid_constant__ CountChoices x) {
  TUTTI_SHARED(int32_t, counts, [kCountedExperts]);
  const int64_t begin = int64_t(blockIdx.x) * kCountedChoices,
                end = min(begin + kCountedChoices, x.count);
  const int32_t experts = x.pieces.experts, group = groupOf(x.pieces, int32_t(begin));
  const bool isShared = experts <= kCountedExperts && groupOf(x.pieces, int32_t(end) - 1) == group;
  if (isShared)
    for (int32_t e = int32_t(threadIdx.x); e < experts; e += kThreads) counts[e] = 0;
  __syncthreads();
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const int32_t expert = x.chosen[i];
    if (expert < 0 || expert >= experts) continue;
    if (isShared)
      atomicAdd(&counts[expert], 1);
    else
      atomicAdd(&x.counts[int64_t(groupOf(x.pieces, int32_t(i))) * experts + expert], 1);
  }
  __syncthreads();
  if (!isShared) return;
  for (int32_t e = int32_t(threadIdx.x); e < experts; e += kThreads)
    if (counts[e] != 0) atomicAdd(&x.counts[int64_t(group) * experts + e], counts[e]);
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

/// The scratch behind the loads, tile by tile.
struct Placing {
  TileCount* counts;
  TilePlace* places;
  int32_t* begins;  ///< of each expert
  int32_t tiles, experts;
  TUTTI_DEVICE explicit Placing(const PlaceTokens& x)
      : tiles((x.count + kPlaceTile - 1) / kPlaceTile), experts(x.pieces.experts) {
    counts = reinterpret_cast<TileCount*>(x.loads + experts);
    places = reinterpret_cast<TilePlace*>(counts + int64_t(tiles) * experts);
    begins = reinterpret_cast<int32_t*>(places + int64_t(tiles) * experts);
  }
};

/// How many of a group's choices of an expert are kept: others are beyond the capacity.
TUTTI_DEVICE int32_t roomOf(const PlaceTokens& x, int32_t group, int32_t expert) {
  if (x.capacity <= 0) return x.count;
  const int64_t room = x.capacity - choicesOf(x, group / 2, expert, x.own[group % 2]);
  return int32_t(max(int64_t(0), min(room, int64_t(x.count))));
}

/// A warp's tile and expert.
struct TileWarp {
  int32_t tile, expert, begin, end;
  bool isHere;
  TUTTI_DEVICE TileWarp(const PlaceTokens& x, const Placing& placing) {
    const int64_t warp = firstElement() / 32;
    tile = int32_t(warp / placing.experts);
    expert = int32_t(warp % placing.experts);
    begin = tile * kPlaceTile;
    end = min(begin + kPlaceTile, x.count);
    isHere = tile < placing.tiles;
  }
  /// Calls visit(group, begin, end) for each segment.
  template <class Visit>
  TUTTI_DEVICE void forSegments(const PlaceTokens& x, const Visit& visit) const {
    for (int32_t from = begin; from < end;) {
      const int32_t group = groupOf(x.pieces, from);
      const auto to = int32_t(min(endOfGroup(x.pieces, group), int64_t(end)));
      visit(group, from, to);
      from = to;
    }
  }
};

/// Rounds of 32 choices that are under way at once.
inline constexpr int kRoundsAhead = 8;

/// Calls visit(choice, lanes that have one of `expert`) round by round.
template <class Visit>
TUTTI_DEVICE void forRounds(const PlaceTokens& x, int32_t expert, int32_t begin, int32_t end,
                            const Visit& visit) {
#pragma unroll 1
  for (int32_t first = begin; first < end; first += 32 * kRoundsAhead) {
    int32_t experts[kRoundsAhead];
#pragma unroll
    for (int i = 0; i < kRoundsAhead; ++i) {
      const int32_t choice = first + 32 * i + laneOf();
      experts[i] = choice < end ? x.chosen[choice] : -1;
    }
#pragma unroll
    for (int i = 0; i < kRoundsAhead; ++i)
      visit(first + 32 * i + laneOf(), __ballot_sync(kAllLanes, experts[i] == expert));
  }
}

__global__ inline void __launch_bounds__(kRowThreads)
    countTiles(const __grid_constant__ PlaceTokens x) {
  const Placing placing(x);
  const TileWarp own(x, placing);
  if (!own.isHere) return;  // a whole warp
  TileCount count{0, 0, 0, roomOf(x, groupOf(x.pieces, own.begin), own.expert)};
  own.forSegments(x, [&](int32_t group, int32_t begin, int32_t end) {
    count.last = 0;
    forRounds(x, own.expert, begin, end,
              [&](int32_t, unsigned owned) { count.last += __popc(owned); });
    if (begin == own.begin)
      count.first = count.last;
    else
      count.rest += min(count.last, roomOf(x, group, own.expert));
  });
  if (laneOf() == 0) placing.counts[int64_t(own.tile) * placing.experts + own.expert] = count;
}

/// Tiles that a thread has under way.
inline constexpr int kTilesAhead = 8;

/// Of one expert: where its choices of each tile are placed. Returns how many are kept.
TUTTI_DEVICE int32_t addTiles(const PlaceTokens& x, const Placing& placing, int32_t expert) {
  TilePlace place{0, 0};
  int32_t before = -1;  // the last group of the tile before
#pragma unroll 1
  for (int32_t first = 0; first < placing.tiles; first += kTilesAhead) {
    TileCount counts[kTilesAhead];
#pragma unroll
    for (int i = 0; i < kTilesAhead; ++i)
      if (first + i < placing.tiles)
        counts[i] = placing.counts[int64_t(first + i) * placing.experts + expert];
#pragma unroll
    for (int i = 0; i < kTilesAhead; ++i) {
      if (first + i >= placing.tiles) break;
      const int32_t begin = (first + i) * kPlaceTile, end = min(begin + kPlaceTile, x.count);
      const int32_t group = groupOf(x.pieces, begin), last = groupOf(x.pieces, end - 1);
      if (group != before) place.within = 0;
      placing.places[int64_t(first + i) * placing.experts + expert] = place;
      place.kept += min(counts[i].first, max(counts[i].room - place.within, 0)) + counts[i].rest;
      place.within = group == last ? place.within + counts[i].last : counts[i].last;
      before = last;
    }
  }
  return place.kept;
}

/// One block.
__global__ inline void __launch_bounds__(kThreads)
    addExperts(const __grid_constant__ PlaceTokens x) {
  TUTTI_SHARED(int32_t, loads, [kThreads]);
  const Placing placing(x);
  int32_t before = 0;  // of experts that other rounds had
  for (int32_t first = 0; first < placing.experts; first += kThreads) {
    const int32_t expert = first + int32_t(threadIdx.x);
    const bool isHere = expert < placing.experts;
    const int32_t own = isHere ? addTiles(x, placing, expert) : 0;
    loads[threadIdx.x] = own;
    __syncthreads();
    int32_t begin = before;
    for (int32_t i = 0; i < kThreads; ++i) {
      if (i < int32_t(threadIdx.x)) begin += loads[i];
      before += loads[i];
    }
    if (isHere) {
      x.loads[expert] = own;
      placing.begins[expert] = begin;
    }
    __syncthreads();  // before the next round writes there
  }
}

__global__ inline void __launch_bounds__(kRowThreads)
    placeTiles(const __grid_constant__ PlaceTokens x) {
  const Placing placing(x);
  const TileWarp own(x, placing);
  if (!own.isHere) return;  // a whole warp
  TilePlace place = placing.places[int64_t(own.tile) * placing.experts + own.expert];
  place.kept += placing.begins[own.expert];
  const unsigned earlier = (1u << laneOf()) - 1;
  own.forSegments(x, [&](int32_t group, int32_t begin, int32_t end) {
    const int32_t room = max(roomOf(x, group, own.expert) - place.within, 0);
    int32_t counted = 0;
    forRounds(x, own.expert, begin, end, [&](int32_t choice, unsigned owned) {
      const int32_t rank = counted + __popc(owned & earlier);
      if ((owned >> laneOf() & 1) != 0) x.places[choice] = rank < room ? place.kept + rank : -1;
      counted += __popc(owned);
    });
    place.kept += min(counted, room);
    place.within = 0;
  });
}

/// The slopes of the probabilities, by the weights of one row: of those that were chosen.
template <class T>
struct WeightSlopes {
  const RouterGradient& x;
  const int64_t first;  ///< of the row's choices
  double mean = 0, scale = 1;

  TUTTI_DEVICE WeightSlopes(const RouterGradient& gradient, int64_t row)
      : x(gradient), first(row * gradient.choicesOfRow) {
    if (x.normalized == 0) return;
    double sum = 0;
    for (int32_t j = 0; j < x.choicesOfRow; ++j) {
      const int32_t expert = x.chosen[first + j];
      if (expert < 0 || expert >= x.experts) continue;
      sum += double(load<T>(x.probabilities, row * x.experts + expert));
      mean += double(load<T>(x.dWeights, first + j)) * double(load<T>(x.weights, first + j));
    }
    scale = 1 / sum;
  }
  TUTTI_DEVICE double of(int32_t expert) const {
    double slope = 0;
    for (int32_t j = 0; j < x.choicesOfRow; ++j) {
      if (x.chosen[first + j] != expert) continue;
      slope += (double(load<T>(x.dWeights, first + j)) - mean) * scale;
    }
    return slope;
  }
};

/// A warp for each row.
template <class T>
__global__ void routerGradient(const __grid_constant__ RouterGradient x) {
  const int64_t row = firstElement() / 32;
  if (row >= x.rows) return;  // a whole warp
  const double perToken = 1 / x.length;
  const double perShare = double(x.experts) * perToken / (double(x.choicesOfRow) * x.length);
  const WeightSlopes<T> ofWeights(x, row);
  const int32_t* const choices = x.choices + row / x.rowsOfSequence * x.experts;
  const auto probabilityOf = [&](int32_t e) {
    return double(load<T>(x.probabilities, row * x.experts + e));
  };
  const double z = load<T>(x.logSumExp, row);
  double balance = 0, dot = 0;
  double probabilities[kHeldExperts] = {}, slopes[kHeldExperts] = {};
  const auto add = [&](int32_t e, double probability) {
    const double share = perShare * choices[e], slope = x.balance * share + ofWeights.of(e);
    balance += share * probability;
    dot += slope * probability;
    return slope;
  };
#pragma unroll
  for (int i = 0; i < kHeldExperts; ++i)
    if (const int32_t e = laneOf() + 32 * i; e < x.experts) {
      probabilities[i] = probabilityOf(e);
      slopes[i] = add(e, probabilities[i]);
    }
  forLane(laneOf() + 32 * kHeldExperts, x.experts, [&](int32_t e) { add(e, probabilityOf(e)); });
  balance = joinWarp<Sum>(balance);
  dot = joinWarp<Sum>(dot);
  const auto finish = [&](int32_t e, double probability, double slope) {
    store<T>(x.dLogits, row * x.experts + e,
             T(probability * (slope - dot + x.z * 2 * z * perToken)));
  };
#pragma unroll
  for (int i = 0; i < kHeldExperts; ++i)
    if (const int32_t e = laneOf() + 32 * i; e < x.experts) finish(e, probabilities[i], slopes[i]);
  forLane(laneOf() + 32 * kHeldExperts, x.experts, [&](int32_t e) {
    finish(e, probabilityOf(e), x.balance * (perShare * choices[e]) + ofWeights.of(e));
  });
  if (laneOf() != 0) return;
  x.balances[row] = balance;
  x.zs[row] = z * z * perToken;
}

/// One block, as many threads whatever the rows: the sums of both, behind the last of zs.
inline constexpr int kLossThreads = 1024;
__global__ inline void __launch_bounds__(kLossThreads)
    addLosses(const __grid_constant__ RouterGradient x) {
  double balance = 0, z = 0;
#pragma unroll 4
  for (int64_t row = threadIdx.x; row < x.rows; row += kLossThreads) {
    balance += x.balances[row];
    z += x.zs[row];
  }
  balance = joinBlock<Sum>(balance);
  z = joinBlock<Sum>(z);
  if (threadIdx.x != 0) return;
  x.zs[x.rows] = balance;
  x.zs[x.rows + 1] = z;
}

/// A block for each choice.
template <class T>
__global__ void spreadRows(const __grid_constant__ SpreadRows x) {
  const int64_t choice = blockIdx.x, from = choice / x.choices * x.width;
  const int64_t to = int64_t(placedRow(x, choice)) * x.width;
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
