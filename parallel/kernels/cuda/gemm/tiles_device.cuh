#pragma once

// The order of units: group after group of some rows of units, in each column by column, so that
// blocks that run at the same time need few rows of a and few columns of b, which then come from
// the L2 cache. With splits all units of a split come before those of the next, and of a batch
// those of a product.

#include <tutti/cuda/ptx.cuh>

#include "parallel/kernels/cuda/gemm/arguments.h"

namespace tutti::parallel::cuda {

struct GemmUnit {
  int32_t product;      ///< of a batch
  int32_t row, column;  ///< of units
  int32_t split, firstStep, steps;
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
          .steps = min(tiles.stepsOfSplit, tiles.steps - firstStep)};
}

TUTTI_DEVICE int32_t stepsAt(const GemmTiles& tiles, int32_t indexOfAll) {
  return tiles.splits == 1 ? tiles.steps : unitAt(tiles, indexOfAll).steps;
}

/// An operand of one product.
TUTTI_DEVICE MmaSide sideOf(const MmaSide& side, int32_t product, int elementBytes) {
  MmaSide own = side;
  own.data = static_cast<const char*>(side.data) + product * side.batchStride * elementBytes;
  return own;
}

}  // namespace tutti::parallel::cuda
