#include "src/plan/symmetry.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace tutti::plan {
namespace {

bool isPowerOfTwo(int n) { return n > 0 && std::has_single_bit(static_cast<unsigned>(n)); }

}  // namespace

Symmetry Symmetry::shift(int ranks, int unit) {
  if (unit < 1 || unit >= ranks || ranks % unit != 0) return none(ranks);
  return {.kind = Kind::Shift, .ranks = ranks, .unit = unit};
}

Symmetry Symmetry::flip(int ranks, int unit, int span) {
  if (!isPowerOfTwo(unit) || !isPowerOfTwo(span) || unit >= span || ranks % span != 0)
    return none(ranks);
  return {.kind = Kind::Flip, .ranks = ranks, .unit = unit, .span = span};
}

Symmetry Symmetry::ofGroups(int size) const {
  switch (kind) {
    case Kind::None: break;
    case Kind::Shift: return shift(ranks, std::lcm(unit, size));
    case Kind::Flip:
      return isPowerOfTwo(size) ? flip(ranks, std::max(unit, size), span) : none(ranks);
  }
  return *this;
}

std::vector<int> Symmetry::representatives() const {
  std::vector<int> found;
  for (int rank = 0; rank < (kind == Kind::Shift ? unit : ranks); ++rank)
    if (moveOf(rank) == 0) found.push_back(rank);
  return found;
}

int Symmetry::moveOf(int rank) const {
  switch (kind) {
    case Kind::None: break;
    case Kind::Shift: return (ranks - rank / unit * unit) % ranks;
    case Kind::Flip: return rank & (span - 1) & ~(unit - 1);
  }
  return 0;
}

int Symmetry::moved(int rank, int move) const {
  return kind == Kind::Flip ? rank ^ move : (rank + move) % ranks;
}

}  // namespace tutti::plan
