#pragma once

// Kernels for what the lanes of a warp, and the threads of a block, do together.

#include <tutti/cuda/ptx.cuh>

namespace tutti::emulation::conformance {

using namespace cuda;

/// out[16 thread + j]: result j of the thread's lane; `operand` is a lane, bits or a distance.
__global__ inline void collectives(uint32_t* out, const uint32_t* in, int operand, int width) {
  const uint32_t value = in[threadIdx.x];
  uint32_t* const mine = out + 16 * threadIdx.x;
  mine[0] = __shfl_sync(~0u, value, operand, width);
  mine[1] = __shfl_xor_sync(~0u, value, operand, width);
  mine[2] = __shfl_up_sync(~0u, value, unsigned(operand), width);
  mine[3] = __shfl_down_sync(~0u, value, unsigned(operand), width);
  mine[4] = __ballot_sync(~0u, value % 3 == 0);
  mine[5] = uint32_t(__any_sync(~0u, value % 64 == 0));
  mine[6] = uint32_t(__all_sync(~0u, value % 64 != 0));
  mine[7] = __match_any_sync(~0u, value % 5);
  mine[8] = __reduce_add_sync(~0u, value);
  mine[9] = __reduce_max_sync(~0u, value);
  mine[10] = __reduce_min_sync(~0u, value);
  mine[11] = uint32_t(__reduce_max_sync(~0u, int(value)));
  mine[12] = uint32_t(__syncthreads_count(value % 7 == 0));
  mine[13] = uint32_t(__syncthreads_and(value != 0) != 0);
  mine[14] = uint32_t(__syncthreads_or(value % 128 == 5) != 0);
  __syncwarp();
  mine[15] =
      __shfl_sync(0xffffu << 16 * (threadIdx.x % 32 / 16), value, int(threadIdx.x % 32 / 16 * 16));
}

/// Warps 0 and 1 pass data to warps 2 and 3 by named barriers: arrive on one side, wait on the
/// other.
__global__ inline void namedBarriers(uint32_t* out, const uint32_t* in) {
  TUTTI_SHARED(uint32_t, held, [64]);
  const unsigned half = threadIdx.x / 64, self = threadIdx.x % 64;
  for (uint32_t round = 0; round < 4; ++round) {
    if (half == 0) {
      if (round > 0) ptx::barSync(2, 128);
      held[self] = in[self] + round;
      ptx::barArrive(1, 128);
    } else {
      ptx::barSync(1, 128);
      out[64 * round + self] = held[63 - self];
      if (round < 3) ptx::barArrive(2, 128);
    }
  }
}

/// out[0]: whether both clocks went on.
__global__ inline void clocks(uint32_t* out) {
  const uint64_t before = ptx::globalTimer();
  const long long cycles = clock64();
  for (int i = 0; i < 200; ++i) __nanosleep(1000);
  out[0] = ptx::globalTimer() > before && clock64() > cycles;
}

}  // namespace tutti::emulation::conformance
