#pragma once

// The order of units: group after group of some rows of units, in each column by column, so that
// blocks that run at the same time need few rows of a and few columns of b, which then come from
// the L2 cache. With splits all units of a split come before those of the next.

#include <tutti/cuda/ptx.cuh>

#include "parallel/kernels/cuda/gemm/arguments.h"

namespace tutti::parallel::cuda {

struct GemmUnit {
  int32_t row, column;  ///< of units
  int32_t split, firstStep, steps;
};

TUTTI_DEVICE GemmUnit unitAt(const GemmTiles& tiles, int32_t index) {
  const int32_t split = index / (tiles.rows * tiles.columns);
  const int32_t tile = index % (tiles.rows * tiles.columns);
  const int32_t firstRow = tile / (tiles.group * tiles.columns) * tiles.group;
  const int32_t rows = min(tiles.group, tiles.rows - firstRow);
  const int32_t inGroup = tile - firstRow * tiles.columns;
  const int32_t firstStep = split * tiles.stepsOfSplit;
  return {firstRow + inGroup % rows, inGroup / rows, split, firstStep,
          min(tiles.stepsOfSplit, tiles.steps - firstStep)};
}

}  // namespace tutti::parallel::cuda
