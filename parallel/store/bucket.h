#pragma once

// What the ParameterStore is made of inside: a bucket of gradients, and first values.

#include <cstdint>
#include <vector>

#include <tutti/device.h>
#include "parallel/store/parameter.h"

namespace tutti::parallel {

/// Gradients that are reduced by one AllReduce. Level 0 lies in `memory`, which the other ranks can
/// address; the others hold partial sums of the deterministic tree.
struct Bucket {
  Memory memory;
  std::vector<Tensor> levels;
  int64_t elements = 0;  ///< with the padding that starts each gradient on a cache line
  int units = 0, unitsDone = 0;
  Event reduced;
};

/// Gives each element of `weight` its first value.
void fillInitial(const Parameter& parameter, uint64_t seed, const Tensor& weight);

}  // namespace tutti::parallel
