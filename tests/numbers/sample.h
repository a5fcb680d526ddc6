#pragma once

// Bit patterns worth adding: special values, small integers, close magnitudes, and any bits.

#include <cstdint>
#include <random>
#include <vector>

#include <tutti/types.h>

namespace tutti::numbers::sample {

using Random = std::mt19937_64;

/// Zeros, subnormals, ones, extremes, infinities, quiet and signalling NaNs; for integers the ends
/// of the range and what lies around zero.
std::vector<uint64_t> specials(DataType type);

/// One pattern; `kind` cycles through the sorts named above.
uint64_t element(DataType type, int kind, Random& random);

}  // namespace tutti::numbers::sample
