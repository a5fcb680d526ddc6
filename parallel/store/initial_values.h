#pragma once

#include <cstdint>
#include <vector>

#include "parallel/sharding/boxes.h"
#include "parallel/store/parameter.h"

namespace tutti::parallel {

/// Gives the elements of `box` of the parameter, which lie in `values` row-major, their first
/// values. Throws Unsupported unless they are float32 or float64.
void fillInitial(const Parameter& parameter, uint64_t seed, const Box& box, const Tensor& values);

}  // namespace tutti::parallel
