#pragma once

// The order of units: group after group of some rows of units, in each column by column, so that
// blocks that run at the same time need few rows of a and few columns of b, which then come from
// the L2 cache. With splits all units of a split come before those of the next, and of a batch
// those of a product.
//
// Stream-K (Osama et al., arXiv 2301.03598): the steps of all units, one unit behind the other, are
// cut into runs of one length, one for each cluster, however many units there are. A unit that
// lies in one run is computed as any other; of one that runs share, each has a fragment.

#include <tutti/cuda/ptx.cuh>

#include "parallel/kernels/cuda/gemm/arguments.h"

namespace tutti::parallel::cuda {

struct GemmUnit {
  int32_t product;      ///< of a batch
  int32_t row, column;  ///< of units
  int32_t split, firstStep, steps;
  /// Of stream-K: how many runs share it, or 0 if none does, and the first of these.
  int32_t sharers, firstWorker;
};

/// Of one product, and of depth that is not split, nothing is divided: that takes longer than to
/// ask.
TUTTI_DEVICE GemmUnit unitAt(const GemmTiles& tiles, int32_t indexOfAll) {
  const int32_t product =
      tiles.units == tiles.unitsOfProduct ? 0 : indexOfAll / tiles.unitsOfProduct;
  const int32_t index = indexOfAll - product * tiles.unitsOfProduct;
  const int32_t tilesOfSplit = tiles.rows * tiles.columns;
  const int32_t split = tiles.splits == 1 ? 0 : index / tilesOfSplit;
  const int32_t tile = index - split * tilesOfSplit;
  const int32_t firstRow = tile / (tiles.group * tiles.columns) * tiles.group;
  const int32_t rows = min(tiles.group, tiles.rows - firstRow);
  const int32_t inGroup = tile - firstRow * tiles.columns;
  const int32_t firstStep = split * tiles.stepsOfSplit;
  return {.product = product,
          .row = firstRow + inGroup % rows,
          .column = inGroup / rows,
          .split = split,
          .firstStep = firstStep,
          .steps = min(tiles.stepsOfSplit, tiles.steps - firstStep),
          .sharers = 0,
          .firstWorker = 0};
}

TUTTI_DEVICE int32_t stepsAt(const GemmTiles& tiles, int32_t indexOfAll) {
  return tiles.splits == 1 ? tiles.steps : unitAt(tiles, indexOfAll).steps;
}

/// Where a unit's fragment i is among those of all units: a worker has two at most, of the unit
/// that it begins, and of the one that others have begun.
TUTTI_DEVICE int32_t fragmentAt(const GemmTiles& tiles, const GemmUnit& unit, int32_t i) {
  return i == 0 ? unit.firstWorker : tiles.workers + unit.firstWorker + i;
}

/// The units of a cluster, one after the other.
class UnitsOf {
 public:
  TUTTI_DEVICE UnitsOf(const GemmTiles& tiles, int32_t cluster, int32_t clusters)
      : tiles_(tiles), cluster_(cluster), index_(cluster), by_(clusters), end_(tiles.units) {
    if (tiles.workers == 0) return;
    const int32_t first = cluster * tiles.stepsOfWorker;
    endStep_ = min(first + tiles.stepsOfWorker, tiles.units * tiles.steps);
    index_ = first / tiles.steps, by_ = 1;
    end_ = (endStep_ - 1) / tiles.steps + 1;
    firstStep_ = first - index_ * tiles.steps;
  }
  TUTTI_DEVICE bool isThere() const { return index_ < end_; }
  TUTTI_DEVICE bool hasNext() const { return index_ + by_ < end_; }
  TUTTI_DEVICE void next() { index_ += by_, firstStep_ = 0; }
  TUTTI_DEVICE int32_t steps() const {
    return tiles_.workers == 0 ? stepsAt(tiles_, index_)
                               : min(tiles_.steps, endStep_ - index_ * tiles_.steps) - firstStep_;
  }
  TUTTI_DEVICE GemmUnit unit() const {
    GemmUnit unit = unitAt(tiles_, index_);
    if (tiles_.workers == 0) return unit;
    unit.firstStep = firstStep_, unit.steps = steps();
    if (unit.steps == tiles_.steps) return unit;
    const int32_t begin = index_ * tiles_.steps;
    unit.firstWorker = begin / tiles_.stepsOfWorker;
    unit.sharers = (begin + tiles_.steps - 1) / tiles_.stepsOfWorker - unit.firstWorker + 1;
    return unit;
  }
  /// Which of a shared unit's fragments this cluster has.
  TUTTI_DEVICE int32_t placeIn(const GemmUnit& unit) const { return cluster_ - unit.firstWorker; }

 private:
  const GemmTiles& tiles_;
  const int32_t cluster_;
  int32_t index_, by_, end_;  ///< of units
  int32_t firstStep_ = 0;     ///< of the unit, in this run
  int32_t endStep_ = 0;       ///< of the run, of all units' steps
};

/// An operand of one product.
TUTTI_DEVICE MmaSide sideOf(const MmaSide& side, int32_t product, int elementBytes) {
  MmaSide own = side;
  own.data = static_cast<const char*>(side.data) + product * side.batchStride * elementBytes;
  return own;
}

}  // namespace tutti::parallel::cuda
