#pragma once

// The median of measurements, and how well it is known.

#include <vector>

namespace tutti::tools {

struct MedianInterval {
  double least = 0, middle = 0, most = 0;
};

/// Of one value or more, the middle one (of an even number the upper), and the ends of its 95%
/// interval: before 6 values the least and the most.
MedianInterval medianOf(std::vector<double> values);

}  // namespace tutti::tools
