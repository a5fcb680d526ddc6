#pragma once

// Of a row of a head that attends to two sets of keys: what becomes of the results of each. The
// same expressions in the plain kernel and in that of streaming/, so that both round alike.

#include "parallel/kernels/cuda/elements_device.cuh"
#include "parallel/kernels/cuda/joined_device.cuh"

namespace tutti::parallel::cuda {

/// In float64 but for the weights.
template <class T>
struct Merged {
  bool seesKeys;  ///< otherwise neither saw one, and the others are nothing
  T keep = 0, take = 0, logSumExp = 0;

  TUTTI_DEVICE Merged(double kept, double taken) {
    const double most = Largest::join(kept, taken);
    seesKeys = most != minusInfinity<double>();
    if (!seesKeys) return;
    const double sum = most + log(exp(kept - most) + exp(taken - most));
    keep = T(exp(kept - sum)), take = T(exp(taken - sum));
    logSumExp = T(sum);
  }
};

}  // namespace tutti::parallel::cuda
