#pragma once

// C = A B', bf16 in, float out, for sm_80: tiles of 64x64, K in steps of 32 through two buffers
// that cp.async fills, ldmatrix and mma.sync by four warps of 32x32 each. A is [M, K], B is [N, K];
// K a multiple of 8. What lies beyond the edges is filled with zeros.

#include <tutti/cuda/ptx.cuh>

namespace tutti::emulation::kernels {

using namespace cuda;

enum class MmaBug {
  None,
  OneGroupTooFew,   // the newest copies are not waited for
  HalvesExchanged,  // of the fragment of B
  NoBarrierBeforeRefill,
  NoBarrierAfterCopies,
  NoZeroFill,    // reads beyond the end of a row
  CopyForgotten  // the last copies are not waited for at all
};

constexpr int kMmaTile = 64, kMmaDepth = 32, kMmaPitch = 40;  // padded rows

struct MmaProblem {
  const __nv_bfloat16 *a, *b;
  float* c;
  int m, n, k;
};

using MmaBuffer = __nv_bfloat16[2][kMmaTile * kMmaPitch];

/// 64 rows of 32 columns from (row, column) on.
template <MmaBug kBug>
TUTTI_DEVICE void mmaLoad(__nv_bfloat16* to, const __nv_bfloat16* from, int row, int rows,
                          int column, int columns) {
  for (int i = threadIdx.x; i < kMmaTile * kMmaDepth / 8; i += 128) {
    const int r = i / 4, c = i % 4 * 8;
    const int left = row + r < rows ? columns - column - c : 0;
    uint32_t bytes = left >= 8 ? 16 : left > 0 ? uint32_t(left) * 2 : 0;
    if (kBug == MmaBug::NoZeroFill && row + r < rows) bytes = 16;
    const __nv_bfloat16* const source =
        bytes > 0 ? from + size_t(row + r) * columns + column + c : from;
    ptx::cpAsync<16>(ptx::sharedAddress(to + r * kMmaPitch + c), source, bytes);
  }
}

template <MmaBug kBug>
TUTTI_DEVICE void mmaMultiply(float (&sums)[2][4][4], const __nv_bfloat16* a,
                              const __nv_bfloat16* b) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int rows = warp % 2 * 32, columns = warp / 2 * 32;
#pragma unroll
  for (int k = 0; k < kMmaDepth; k += 16) {
    uint32_t fromA[2][4], fromB[4][2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      ptx::ldmatrix(fromA[i], ptx::sharedAddress(a + (rows + i * 16 + lane % 16) * kMmaPitch + k +
                                                 lane / 16 * 8));
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      uint32_t both[4];
      ptx::ldmatrix(
          both, ptx::sharedAddress(b + (columns + j * 16 + lane % 8 + lane / 16 * 8) * kMmaPitch +
                                   k + lane / 8 % 2 * 8));
      const int low = kBug == MmaBug::HalvesExchanged ? 1 : 0;
      fromB[2 * j][low] = both[0];
      fromB[2 * j][1 - low] = both[1];
      fromB[2 * j + 1][0] = both[2];
      fromB[2 * j + 1][1] = both[3];
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) ptx::mmaBf16(sums[i][j], fromA[i], fromB[j]);
  }
}

TUTTI_DEVICE void mmaStore(const MmaProblem& problem, const float (&sums)[2][4][4]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int h = 0; h < 4; ++h) {
        const int row = int(blockIdx.y) * kMmaTile + warp % 2 * 32 + i * 16 + lane / 4 + h / 2 * 8;
        const int column =
            int(blockIdx.x) * kMmaTile + warp / 2 * 32 + j * 8 + lane % 4 * 2 + h % 2;
        if (row < problem.m && column < problem.n)
          problem.c[size_t(row) * problem.n + column] = sums[i][j][h];
      }
}

template <MmaBug kBug>
__global__ void __launch_bounds__(128) mmaGemm(MmaProblem problem) {
  TUTTI_SHARED(__nv_bfloat16, a, [2][kMmaTile * kMmaPitch]);
  TUTTI_SHARED(__nv_bfloat16, b, [2][kMmaTile * kMmaPitch]);
  const auto load = [&](int step) {
    mmaLoad<kBug>(a[step % 2], problem.a, int(blockIdx.y) * kMmaTile, problem.m, step * kMmaDepth,
                  problem.k);
    mmaLoad<kBug>(b[step % 2], problem.b, int(blockIdx.x) * kMmaTile, problem.n, step * kMmaDepth,
                  problem.k);
    ptx::cpAsyncCommit();
  };
  float sums[2][4][4] = {};
  const int steps = (problem.k + kMmaDepth - 1) / kMmaDepth;
  load(0);
  for (int step = 0; step < steps; ++step) {
    const bool more = step + 1 < steps;
    if (more) load(step + 1);
    if (more)
      ptx::cpAsyncWait<kBug == MmaBug::OneGroupTooFew ? 2 : 1>();
    else if (kBug != MmaBug::CopyForgotten)
      ptx::cpAsyncWait<0>();
    if (kBug != MmaBug::NoBarrierAfterCopies) __syncthreads();
    mmaMultiply<kBug>(sums, a[step % 2], b[step % 2]);
    if (kBug != MmaBug::NoBarrierBeforeRefill) __syncthreads();
  }
  mmaStore(problem, sums);
}

}  // namespace tutti::emulation::kernels
