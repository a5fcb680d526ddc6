#pragma once

// One number of what the threads of a warp, or of a block, have each. The order is a tree that
// depends on the number of threads alone.

#include <tutti/cuda/ptx.cuh>

namespace tutti::parallel::cuda {

inline constexpr unsigned kAllLanes = ~0u;
inline constexpr int kMostWarps = 32;

struct Sum {
  template <class T>
  static TUTTI_DEVICE T join(T a, T b) {
    return a + b;
  }
};
/// A NaN does not count, unless it is the first.
struct Largest {
  template <class T>
  static TUTTI_DEVICE T join(T a, T b) {
    return b > a ? b : a;
  }
};
struct Smallest {
  template <class T>
  static TUTTI_DEVICE T join(T a, T b) {
    return b < a ? b : a;
  }
};

TUTTI_DEVICE int laneOf() { return int(threadIdx.x % 32); }

/// All lanes of a warp get it.
template <class How, class T>
TUTTI_DEVICE T joinWarp(T value) {
  for (int bits = 16; bits > 0; bits /= 2)
    value = How::join(value, __shfl_xor_sync(kAllLanes, value, bits));
  return value;
}

/// All threads of a block of whole warps get it; all must call it.
template <class How, class T>
TUTTI_DEVICE T joinBlock(T value) {
  TUTTI_SHARED(T, ofWarps, [kMostWarps]);
  value = joinWarp<How>(value);
  if (laneOf() == 0) ofWarps[threadIdx.x / 32] = value;
  __syncthreads();
  T joined = ofWarps[0];
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) joined = How::join(joined, ofWarps[warp]);
  __syncthreads();  // before the next call writes there
  return joined;
}

}  // namespace tutti::parallel::cuda
