#include "parallel/sharding/sequence_cut.h"

#include <algorithm>

namespace tutti::parallel {

int64_t SequenceCut::most() const {
  int64_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) most = std::max(most, count(rank));
  return most;
}

}  // namespace tutti::parallel
