#pragma once

// What pictures of ranks have in common.

#include <array>

#include "parallel/tensor/check.h"
#include "src/base/svg.h"

namespace tutti::parallel {

inline constexpr int kMostDrawnRanks = 16;
inline constexpr int kMargin = 20;
inline constexpr const char* kInk = "#303030";
inline constexpr const char* kMiddle = "text-anchor=\"middle\" font-size=\"11\"";

/// Throws InvalidArgument for more ranks than there is room for.
inline void requireDrawable(int ranks) {
  require(ranks <= kMostDrawnRanks, "--svg: at most ", kMostDrawnRanks, " ranks are drawn, not ",
          ranks);
}

/// Another one for each of them.
inline const char* rankColour(int rank) {
  constexpr std::array kColours{"#f4c28a", "#b5dba6", "#d5b8e8", "#f2a6a6", "#fae29c", "#a6d8d4",
                                "#c9c3b4", "#e8b8d5", "#dde59a", "#b8c4f0", "#e6cbb0", "#c0e0c8",
                                "#d0d0d0", "#f0c8f0", "#cfe3a0", "#f6d0c0"};
  static_assert(kColours.size() == kMostDrawnRanks);
  return kColours[static_cast<size_t>(rank)];
}

}  // namespace tutti::parallel
