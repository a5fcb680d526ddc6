#pragma once

// Whether boxes make up a tensor: every element in exactly one of them.

#include <string>
#include <vector>

#include "parallel/tensor/box.h"

namespace tutti::parallel {

/// As many boxes as one tensor may be cut into: ranks that write.
inline constexpr size_t kMostBoxes = size_t{1} << 17;

/// Throws InvalidArgument, beginning with `where`, when a box has elements that `shape` does not
/// have, or an element is in two boxes or in none: the first such element is named. Takes
/// n log n for n boxes, whatever they are.
void requireTiling(const std::string& where, const Shape& shape, const std::vector<Box>& boxes);

}  // namespace tutti::parallel
