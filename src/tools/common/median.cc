#include "src/tools/common/median.h"

#include <algorithm>

#include "src/base/check.h"

namespace tutti::tools {
namespace {

/// The place, in order, of the lower end of a median's 95% interval (binomial, large enough from 6
/// values on; before, the least).
size_t lowerEnd(size_t values) {
  double tail = 0, term = 1;
  for (size_t i = 0; i < values; ++i) term /= 2;
  size_t k = 0;
  for (; k < values / 2; ++k) {
    tail += term;
    if (tail > 0.025) break;
    term *= static_cast<double>(values - k) / static_cast<double>(k + 1);
  }
  return k == 0 ? 0 : k - 1;
}

}  // namespace

MedianInterval medianOf(std::vector<double> values) {
  TUTTI_ASSERT(!values.empty(), "the median of nothing");
  std::sort(values.begin(), values.end());
  const size_t low = lowerEnd(values.size());
  return {values[low], values[values.size() / 2], values[values.size() - 1 - low]};
}

}  // namespace tutti::tools
