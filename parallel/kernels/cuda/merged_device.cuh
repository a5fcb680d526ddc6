#pragma once

// Of a row of a head that attends to two sets of keys: what becomes of the results of each. The
// same expressions in the reference kernel and in that of vectorized/, so that both round alike.

#include "parallel/kernels/cuda/elements_device.cuh"

namespace tutti::parallel::cuda {

/// By the difference of both, which is exact where neither outweighs the other: so weights err by
/// some roundings, and their sum by one.
template <class T>
struct Merged {
  bool seesKeys;  ///< otherwise neither saw one, and the others are nothing
  T keep = 0, take = 0, logSumExp = 0;

  TUTTI_DEVICE Merged(T kept, T taken) {
    const bool takesMost = kept < taken || taken != taken;  // a NaN counts wherever it is
    const T most = takesMost ? taken : kept, least = takesMost ? kept : taken;
    seesKeys = most != minusInfinity<T>();
    if (!seesKeys) return;
    const T ofLeast = exponential(least - most), sum = T(1) + ofLeast, share = T(1) / sum;
    keep = takesMost ? ofLeast * share : share;
    take = takesMost ? share : ofLeast * share;
    logSumExp = most + logarithm(sum);
  }
};

}  // namespace tutti::parallel::cuda
