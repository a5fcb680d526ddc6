#pragma once

// Backward of attention by tensor cores, for sm_80 and newer ("FlashAttention-2", Dao), without
// atomics: one kernel's blocks own 64 queries and sum up their gradient over the keys that these
// see, another one's own 64 keys and sum up theirs over the queries that see them, of all heads
// that they serve, in their order. So scores are computed twice, and every sum has one order.
//
//   p = exp2(c q k - log2(e) lse), with c = log2(e) / sqrt(head width)
//   dS = p (dO v - dots), with dots = dO out, which another kernel has computed
//   dQ = sum of dS k / sqrt(head width)
//   dK = sum of dS q / sqrt(head width), dV = sum of p dO
//
// Both are the same program: a block's own rows x and y (q and dO, or k and v) stay in shared
// memory, 16 of them to each of four warps; the others' rows u and v (k and v, or q and dO) come 32
// at a time by cp.async into two stages, one ahead of what is computed. x u are scores, y v what dS
// is of, and sums over the others are of dS u, and for keys of p v. In registers own rows are the
// rows of all products, so that weights become a left factor where they are.
//
// Bound: tensor cores, 3 or 4 products of 2 * 64 * 32 * width operations a step. Shared memory is
// read as fast as that on sm_80, since a fragment of the others serves 16 rows.

#include "parallel/kernels/cuda/attention/gradient_parts_device.cuh"

namespace tutti::parallel::cuda {

inline constexpr int kOwnRows = kHeadWarps * 16, kOtherRows = 32;

template <int kWidth>
struct GradientShared {
  uint16_t own[2][kOwnRows * kHeadPitch<kWidth>];
  uint16_t others[2][2][kOtherRows * kHeadPitch<kWidth>];  ///< by stage
  RowSums sums[2][kOtherRows];                             ///< where the others are queries
};

/// At least one block on a multiprocessor: ptxas else aims at four of 128 registers a thread, and
/// spills some.
template <class Numbers, int kWidth, bool kOwnsKeys>
__global__ void __launch_bounds__(kHeadThreads, 1)
    attentionGradient(const __grid_constant__ AttentionBackward x) {
  const AttentionSizes& sizes = x.sizes;
  const int32_t rows = kOwnsKeys ? sizes.keys : sizes.queries;
  const int32_t others = kOwnsKeys ? sizes.queries : sizes.keys;
  const HeadTask task = headTask(sizes, kOwnsKeys ? sizes.kvHeads : sizes.heads, rows, kOwnRows,
                                 !kOwnsKeys, otherRowsOf<kOwnsKeys>(sizes));
  const GradientSides<kOwnsKeys> sides(x);
  const GradientSteps<kOwnsKeys, kOwnRows, kOtherRows> steps(sizes, task);

  auto& shared = *dynamicShared<GradientShared<kWidth>>();
  const auto copy = [&](int32_t step) {
    const int32_t head = steps.headAt(step), first = steps.firstAt(step);
    auto& stage = shared.others[step % 2];
    copyHeadRows<kWidth, kOtherRows>(stage[0], sides.u, task.batch, head, first, others);
    copyHeadRows<kWidth, kOtherRows>(stage[1], sides.v, task.batch, head, first, others);
    ptx::cpAsyncCommit();
    if (kOwnsKeys && threadIdx.x < kOtherRows)
      shared.sums[step % 2][threadIdx.x] =
          rowSums(x, task.batch, head, first + int32_t(threadIdx.x));
  };

  const int row = int(threadIdx.x) / 32 * 16;
  const OwnRows<kOwnsKeys> own(x, task, task.first + row);
  if (steps.count() > 0) {
    copyHeadRows<kWidth, kOwnRows>(shared.own[0], sides.x, task.batch, task.head, task.first, rows);
    copyHeadRows<kWidth, kOwnRows>(shared.own[1], sides.y, task.batch, task.head, task.first, rows);
    copy(0);
  }
  float sumsOfU[1][kWidth / 8][4] = {}, sumsOfV[1][kWidth / 8][4] = {};
  for (int32_t step = 0; step < steps.count(); ++step) {
    ptx::cpAsyncWait<0>();
    __syncthreads();  // all have copied this step's rows, and used those of the one before
    if (step + 1 < steps.count()) copy(step + 1);
    const auto& stage = shared.others[step % 2];
    float scores[1][kOtherRows / 8][4], products[1][kOtherRows / 8][4];
    multiplyRows<Numbers, kWidth>(scores, shared.own[0], row, stage[0]);
    multiplyRows<Numbers, kWidth>(products, shared.own[1], row, stage[1]);
    probabilities(scores[0], own, steps.firstAt(step), float(sizes.scale) * kLog2E,
                  shared.sums[step % 2]);
    gradientsOfScores(scores[0], products[0], own, shared.sums[step % 2]);
    addWeighted<Numbers, kWidth>(sumsOfU, products, stage[0]);
    if (kOwnsKeys) addWeighted<Numbers, kWidth>(sumsOfV, scores, stage[1]);
  }
  const float scale = float(sizes.scale), scales[2] = {scale, scale}, ones[2] = {1, 1};
  storeSums<kWidth>(kOwnsKeys ? x.dKey : x.dQuery, task, task.first + row, rows, sumsOfU[0], scales,
                    x.adds != 0);
  if (kOwnsKeys)
    storeSums<kWidth>(x.dValue, task, task.first + row, rows, sumsOfV[0], ones, x.adds != 0);
}

}  // namespace tutti::parallel::cuda
