#pragma once

// Which positions of a sequence each rank of context parallelism has. Causality makes late
// positions dear: a query sees all keys before it. So the sequence is cut into 2 n pieces, and rank
// r of n has two of them, the r-th from its beginning and the r-th from its end (n = 3):
//
//   piece   0   1   2   3   4   5
//   rank    0   1   2   2   1   0
//
// Every rank then has as much attention to compute with the keys of any other rank, where 2 n
// divides the length. The cut is that of Llama 3's training (Grattafiori et al., "The Llama 3 Herd
// of Models") and of ring-flash-attention's zigzag form.

#include <array>

#include "parallel/sharding/boxes.h"

namespace tutti::parallel {

struct SequenceCut {
  int64_t length = 0;  ///< positions in all
  int ranks = 1;

  /// Positions of `rank`, in ascending order. Pieces differ by one at most, also where they are
  /// none.
  std::array<Range, 2> pieces(int rank) const {
    return {partOf(length, 2 * ranks, rank), partOf(length, 2 * ranks, 2 * ranks - 1 - rank)};
  }
  int64_t count(int rank) const {
    const auto [early, late] = pieces(rank);
    return early.count() + late.count();
  }
  /// Whose keys and values `rank` has in a step of the ring: in step 0 its own.
  int ownerOf(int rank, int step) const { return (rank + ranks - step) % ranks; }
  /// Whether some of these queries see some of these keys, each a piece.
  static bool sees(const Range& queries, const Range& keys) {
    return queries.count() > 0 && keys.count() > 0 && keys.begin <= queries.begin;
  }
  /// What the rank that has most has.
  int64_t most() const;
  int64_t mostOfPiece() const { return partOf(length, 2 * ranks, 0).count(); }
};

}  // namespace tutti::parallel
