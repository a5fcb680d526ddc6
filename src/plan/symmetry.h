#pragma once

// Ranks that are alike. A symmetry of a plan is a set of relabellings of its ranks, under each of
// which the plan stays what it was: the rank that gets another's name has the other's program, with
// its peers renamed as well (chunk numbers aside, and in whatever order one step lists its
// sources). So at every moment of a run such ranks do the same, and few of them tell of all.

#include <cstdint>
#include <vector>

namespace tutti::plan {

struct Symmetry {
  enum class Kind : uint8_t {
    None,   ///< every rank for itself
    Shift,  ///< rank r becomes r + k * unit, modulo ranks
    Flip,   ///< rank r becomes r ^ (k * unit), for k * unit < span; powers of two
  };
  Kind kind = Kind::None;
  int ranks = 1;
  int unit = 1;
  int span = 1;

  static Symmetry none(int ranks) { return {.ranks = ranks}; }
  /// Nothing where `unit` does not divide `ranks`.
  static Symmetry shift(int ranks, int unit);
  /// Nothing where these are no powers of two, `span` is not larger or does not divide `ranks`.
  static Symmetry flip(int ranks, int unit, int span);

  /// Only the relabellings that keep each group of `size` neighbours, rank 0's and all that follow,
  /// together and in order.
  Symmetry ofGroups(int size) const;

  /// One rank of each class, ascending.
  std::vector<int> representatives() const;
  /// The relabelling that makes `rank` its representative, to be given to moved().
  int moveOf(int rank) const;
  int moved(int rank, int move) const;
};

}  // namespace tutti::plan
