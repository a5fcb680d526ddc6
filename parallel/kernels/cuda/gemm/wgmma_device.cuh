#pragma once

// c = a b (+ c) for Hopper: operands of 16 bits, sums in float32 in the tensor cores' registers.
// A block computes tiles of 128 rows by kColumns columns, taking 64 of the depth at a time through
// a ring of stages in shared memory.
//
// Warpgroup 0 produces: one thread waits until a stage is empty and issues TMA for it. Warpgroups 1
// and 2 consume: wgmma on 64 rows of the tile each, and then what they have to c
// in one of three ways (OutputWay). Blocks are persistent: cluster i takes units i, i + clusters,
// ..., or a run of their steps (UnitsOf of tiles_device.cuh), and the producer runs ahead into the
// next tile while consumers store the one before.
//
// In a cluster of two, blocks have tiles below each other and share b: each loads half of its tile
// into both. So a stage is full when both halves are there, and may be filled again when both
// blocks have read it.
//
//   full[s]    1 arrival, of the own producer, and kStageBytes
//   empty[s]   1 arrival of each warp that reads the stage, from each block of the cluster: of 8
//              warps, or in turn of 4
//
// An operand in shared memory, with TMA's and wgmma's swizzle of 128 bytes, is
//   K-major:  a row (of a; a column of b) after the other, 64 of the depth = 128 bytes each;
//   MN-major: panels of 64 rows (columns), in each 64 of the depth after the other, 128 bytes each.
// Both take 128 bytes a row, and 64 rows begin at a multiple of 8 KiB, so that all four
// arrangements differ in descriptors and boxes alone, and nothing is ever transposed. What lies
// beyond the edges TMA fills with zeros; of the depth that is zero in both operands.
//
// Bound: tensor cores, 4 kColumns cycles a step; of the L2 cache, 128 (128 + kColumns / cluster)
// bytes a step.

#include <tutti/cuda/ptx.cuh>

#include "parallel/kernels/cuda/gemm/arguments.h"
#include "parallel/kernels/cuda/gemm/lines_device.cuh"
#include "parallel/kernels/cuda/gemm/output_device.cuh"
#include "parallel/kernels/cuda/gemm/pairs_device.cuh"
#include "parallel/kernels/cuda/gemm/tiles_device.cuh"

namespace tutti::parallel::cuda {

using ptx::Major;
using ptx::sharedAddress;
using ::tutti::cuda::dynamicShared;

inline constexpr int kWarpgroup = 128, kWgmmaThreads = 3 * kWarpgroup;
inline constexpr int kConsumers = 2, kConsumerWarps = 8, kHalfRows = 64;
inline constexpr int kRowBytes = 128;  ///< of a stage, for a row of a or a column of b
inline constexpr int kPanel = 64, kPanelBytes = kPanel * kRowBytes;

template <int kColumns>
constexpr int kWgmmaStages = kColumns == 64    ? 8
                             : kColumns == 128 ? 6
                                               : 4;

template <int kColumns>
struct WgmmaShared {
  static constexpr int kStages = kWgmmaStages<kColumns>;
  char a[kStages][kTileRows * kRowBytes];
  char b[kStages][kColumns * kRowBytes];
  WarpStage out[kConsumerWarps];
  uint64_t full[kStages], empty[kStages];
};

/// A stage of the ring, and in which of its turns, modulo two.
template <int kStages>
struct RingPlace {
  uint32_t stage = 0, parity = 0;
  TUTTI_DEVICE void advance(uint32_t steps = 1) {
    const uint32_t next = stage + steps;
    stage = next % kStages;
    parity ^= next / kStages % 2;
  }
};

/// `count` rows of a, or columns of b, from `outer` on, into this block or into both.
template <Major kMajor>
TUTTI_DEVICE void loadBoxes(char* to, const CUtensorMap* map, int32_t outer, int count,
                            int32_t depth, int32_t product, uint32_t full, bool intoBoth) {
  constexpr uint16_t kBoth = 3;
  const int boxRows = kMajor == Major::K ? count : kPanel;
  for (int first = 0; first < count; first += boxRows) {
    const int at[3] = {kMajor == Major::K ? depth : outer + first,
                       kMajor == Major::K ? outer : depth, product};
    const uint32_t address = sharedAddress(to + first * kRowBytes);
    if (intoBoth)
      ptx::tensorLoadMulticast(address, map, at, full, kBoth);
    else
      ptx::tensorLoad(address, map, at, full);
  }
}

TUTTI_DEVICE UnitsOf unitsHere(const WgmmaGemm& x) {
  const auto cluster = int32_t(ptx::clusterSize());
  return UnitsOf(x.tiles, int32_t(blockIdx.x) / cluster, int32_t(gridDim.x) / cluster);
}

template <int kColumns, Major kMajorA, Major kMajorB>
TUTTI_DEVICE void produce(WgmmaShared<kColumns>& shared, const WgmmaGemm& x) {
  constexpr uint32_t kStageBytes = (kTileRows + kColumns) * kRowBytes;
  const auto rank = int32_t(ptx::clusterRank()), cluster = int32_t(ptx::clusterSize());
  const int share = kColumns / cluster;
  ptx::prefetchTensorMap(&x.a);
  ptx::prefetchTensorMap(&x.b);
  RingPlace<kWgmmaStages<kColumns>> place;
  for (UnitsOf units = unitsHere(x); units.isThere(); units.next()) {
    const GemmUnit unit = units.unit();
    const int32_t row = (unit.row * cluster + rank) * kTileRows;
    const int32_t column = unit.column * kColumns + rank * share;
    for (int32_t step = 0; step < unit.steps; ++step, place.advance()) {
      const int32_t depth = (unit.firstStep + step) * kStepDepth;
      const uint32_t full = sharedAddress(&shared.full[place.stage]);
      ptx::mbarrierWaitClusterRelaxed(sharedAddress(&shared.empty[place.stage]), place.parity ^ 1);
      ptx::mbarrierArriveExpectTx(full, kStageBytes);
      loadBoxes<kMajorA>(shared.a[place.stage], &x.a, row, kTileRows, depth,
                         x.isSharedA != 0 ? 0 : unit.product, full, false);
      loadBoxes<kMajorB>(shared.b[place.stage] + rank * share * kRowBytes, &x.b, column, share,
                         depth, x.isSharedB != 0 ? 0 : unit.product, full, cluster > 1);
    }
  }
}

/// Of 64 rows of a, or all columns of b; advanced by kDescriptorStep for the next 16 of the depth.
template <Major kMajor>
TUTTI_DEVICE uint64_t descriptorOf(const char* from) {
  constexpr uint32_t kLeading = kMajor == Major::K ? 16 : kPanelBytes;  // K-major it is not used
  return ptx::wgmmaDescriptor(sharedAddress(from), kLeading, 8 * kRowBytes, ptx::Swizzle::Bytes128);
}
template <Major kMajor>
constexpr uint64_t kDescriptorStep = (kMajor == Major::K ? 32 : 16 * kRowBytes) / 16;

/// A warp has read a stage: it tells every block that fills it. Nothing was written that anybody
/// would have to see, so the arrival is relaxed: one that releases would wait for memory.
TUTTI_DEVICE void release(uint64_t& empty) {
  const uint32_t lane = threadIdx.x % 32;
  if (lane < ptx::clusterSize())
    ptx::mbarrierArriveClusterRelaxed(ptx::mapa(sharedAddress(&empty), lane));
}

template <ElementFormat kFormat, Major kMajorA, Major kMajorB, int kSums>
TUTTI_DEVICE void issueStep(float (&sums)[kSums], uint64_t a, uint64_t b, bool isFirst) {
#pragma unroll
  for (int i = 0; i < kStepDepth / 16; ++i) {
    const uint64_t ofA = a + i * kDescriptorStep<kMajorA>, ofB = b + i * kDescriptorStep<kMajorB>;
    if constexpr (kFormat == ElementFormat::BFloat16)
      ptx::wgmmaBf16<kMajorA, kMajorB>(sums, ofA, ofB, !isFirst || i > 0);
    else
      ptx::wgmmaF16<kMajorA, kMajorB>(sums, ofA, ofB, !isFirst || i > 0);
  }
}

/// Calls issued() when the last products are under way. There is a step: a loop that might have
/// none would leave sums undefined, and ptxas would serialize wgmma to give them values.
template <class Kernel, int kHalvesHere, int kSums, class Issued>
TUTTI_DEVICE void multiply(float (&sums)[kHalvesHere][kSums], WgmmaShared<Kernel::kColumns>& shared,
                           int firstRow, int32_t steps,
                           RingPlace<kWgmmaStages<Kernel::kColumns>>& place, const Issued& issued) {
  uint32_t before = 0;
  int32_t step = 0;
  do {
    const uint32_t stage = place.stage;
    ptx::mbarrierWait(sharedAddress(&shared.full[stage]), place.parity);
    const uint64_t b = descriptorOf<Kernel::kMajorB>(shared.b[stage]);
    ptx::wgmmaFence();
#pragma unroll
    for (int half = 0; half < kHalvesHere; ++half)
      issueStep<Kernel::kFormat, Kernel::kMajorA, Kernel::kMajorB>(
          sums[half],
          descriptorOf<Kernel::kMajorA>(shared.a[stage] +
                                        (firstRow + half * kHalfRows) * kRowBytes),
          b, step == 0);
    ptx::wgmmaCommit();
    if (step + 1 == steps) issued();
#pragma unroll
    for (int half = 0; half < kHalvesHere; ++half) ptx::wgmmaWait<1>(sums[half]);
    if (step > 0) release(shared.empty[before]);
    before = stage;
    place.advance();
  } while (++step < steps);
#pragma unroll
  for (int half = 0; half < kHalvesHere; ++half) ptx::wgmmaWait<0>(sums[half]);
  release(shared.empty[before]);
}

/// Where a warp's sums of a unit go, from its consumer's first row of the tile on.
template <int kColumns>
struct WarpPlace {
  int32_t row, column;
  TUTTI_DEVICE WarpPlace(const GemmUnit& unit, int firstRow) {
    const int warp = int(threadIdx.x - kWarpgroup) / 32 % 4;
    const auto rank = int32_t(ptx::clusterRank()), cluster = int32_t(ptx::clusterSize());
    row = (unit.row * cluster + rank) * kTileRows + firstRow + warp * kStageRows;
    column = unit.column * kColumns;
  }
};
template <int kColumns>
TUTTI_DEVICE WarpStage& stageOf(WgmmaShared<kColumns>& shared) {
  return shared.out[(threadIdx.x - kWarpgroup) / 32];
}

/// What lines read besides: before the tile's products, so that it is there when they are done, or
/// when the sums of all that share it are.
template <class Kernel, int kHalvesHere>
TUTTI_DEVICE void fetchFirst(WgmmaShared<Kernel::kColumns>& shared, const WgmmaGemm& x,
                             const GemmUnit& unit, int firstRow) {
  constexpr int kAcross = Kernel::kColumns / kLineColumns;
  if (x.out.way != OutputWay::Lines) return;
  const WarpPlace<Kernel::kColumns> place(unit, firstRow);
  fetchFirstLines<kHalvesHere * kAcross, kAcross, kHalfRows>(
      outputOf(x.out, unit.product, unit.split), stageOf(shared), place.row, place.column);
}

/// A warp writes its sums of a fragment to memory, for that of another block which has the same
/// rows. The one that comes last has the sums of all, in the order of the depth whoever that is,
/// and true: nobody waits. Lanes have neighbouring words of 16 bytes.
template <class Kernel, int kHalvesHere, int kSums>
TUTTI_DEVICE bool joinFragments(const WgmmaGemm& x, const GemmUnit& unit, int32_t own,
                                float (&sums)[kHalvesHere][kSums]) {
  constexpr int kWords = kSums / 4, kAhead = 8;
  const auto rank = int32_t(ptx::clusterRank()), cluster = int32_t(ptx::clusterSize());
  const int lane = int(threadIdx.x) % 32;
  const int warp = int(threadIdx.x - kWarpgroup) / 32 % (kConsumerWarps / kHalvesHere);
  auto* const first =
      reinterpret_cast<float4*>(x.fragments) + warp * kHalvesHere * kWords * 32 + lane;
  const auto wordsOf = [&](int32_t fragment) {
    const int32_t block = fragmentAt(x.tiles, unit, fragment) * cluster + rank;
    return first + int64_t{block} * (kTileRows * Kernel::kColumns / 4);
  };
  float4* const to = wordsOf(own);
#pragma unroll
  for (int i = 0; i < kHalvesHere * kWords; ++i) {
    const float* const from = &sums[i / kWords][i % kWords * 4];
    const float4 word = make_float4(from[0], from[1], from[2], from[3]);
    to[i * 32] = word;
  }
  ptx::fenceAcqRelGpu();
  __syncwarp();
  uint32_t* const arrivals =
      x.arrivals + (unit.firstWorker * cluster + rank) * kArrivalsOfBlock + warp;
  uint32_t before = lane == 0 ? ptx::atomAddAcqRelGpu(arrivals, 1u) : 0;
  before = __shfl_sync(~0u, before, 0);
  __syncwarp();  // behind lane 0, which has seen that all are there
  if (int32_t(before) + 1 < unit.sharers) return false;
  ptx::fenceAcqRelGpu();
  if (lane == 0) *arrivals = 0;
#pragma unroll
  for (int half = 0; half < kHalvesHere; ++half)
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[half][i] = 0;
#pragma unroll 1
  for (int32_t fragment = 0; fragment < unit.sharers; ++fragment) {
    const float4* const words = wordsOf(fragment);
#pragma unroll
    for (int at = 0; at < kHalvesHere * kWords; at += kAhead) {
      float4 ahead[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) ahead[i] = words[(at + i) * 32];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        float* const sum = &sums[(at + i) / kWords][(at + i) % kWords * 4];
        sum[0] += ahead[i].x, sum[1] += ahead[i].y, sum[2] += ahead[i].z, sum[3] += ahead[i].w;
      }
    }
  }
  return true;
}

template <class Kernel, int kHalvesHere>
TUTTI_DEVICE void storeTile(WgmmaShared<Kernel::kColumns>& shared, const WgmmaGemm& x,
                            const GemmUnit& unit, int firstRow,
                            const float (&sums)[kHalvesHere][Kernel::kColumns / 2]) {
  const WarpPlace<Kernel::kColumns> place(unit, firstRow);
  const GemmOutput out = outputOf(x.out, unit.product, unit.split);
  if (out.way == OutputWay::Lines)
    storeLines<Kernel::kFormat, kHalfRows>(out, stageOf(shared), sums, place.row, place.column);
  else if (out.way == OutputWay::Pairs)
    storePairs<kHalfRows>(out, sums, place.row, place.column);
  else
    storeAny<kHalfRows>(out, stageOf(shared), sums, place.row, place.column);
}

/// The unit at which `units` is, from its first row on: its products, and what becomes of them.
template <class Kernel, int kHalvesHere, class Begin, class Issued>
TUTTI_DEVICE void computeUnit(WgmmaShared<Kernel::kColumns>& shared, const WgmmaGemm& x,
                              const UnitsOf& units, int firstRow,
                              RingPlace<kWgmmaStages<Kernel::kColumns>>& place, const Begin& begin,
                              const Issued& issued) {
  const GemmUnit unit = units.unit();
  const bool isShared = unit.sharers > 0;
  float sums[kHalvesHere][Kernel::kColumns / 2];
  if (!isShared) fetchFirst<Kernel, kHalvesHere>(shared, x, unit, firstRow);
  begin();
  multiply<Kernel>(sums, shared, firstRow, unit.steps, place, issued);
  if (isShared) {
    if (!joinFragments<Kernel>(x, unit, units.placeIn(unit), sums)) return;
    fetchFirst<Kernel, kHalvesHere>(shared, x, unit, firstRow);
  }
  storeTile<Kernel>(shared, x, unit, firstRow, sums);
}

template <class Kernel>
TUTTI_DEVICE void consumeTogether(WgmmaShared<Kernel::kColumns>& shared, const WgmmaGemm& x,
                                  int consumer) {
  RingPlace<kWgmmaStages<Kernel::kColumns>> place;
  for (UnitsOf units = unitsHere(x); units.isThere(); units.next())
    computeUnit<Kernel, 1>(
        shared, x, units, consumer * kHalfRows, place, [] {}, [] {});
}

/// Of the cluster's units a consumer has every second one; stages of the others it leaves out. Its
/// turn ends when its last products have been issued: the other's queue up behind them.
template <class Kernel>
TUTTI_DEVICE void consumeInTurn(WgmmaShared<Kernel::kColumns>& shared, const WgmmaGemm& x,
                                int consumer) {
  constexpr uint32_t kBoth = kConsumers * kWarpgroup;
  RingPlace<kWgmmaStages<Kernel::kColumns>> place;
  bool isMine = consumer == 0;
  if (!isMine) ptx::barArrive(1, kBoth);
  for (UnitsOf units = unitsHere(x); units.isThere(); units.next(), isMine = !isMine) {
    if (!isMine) {
      place.advance(uint32_t(units.steps()));
      continue;
    }
    computeUnit<Kernel, 2>(
        shared, x, units, 0, place, [&] { ptx::barSync(uint32_t(1 + consumer), kBoth); },
        [&] {
          if (units.hasNext()) ptx::barArrive(uint32_t(2 - consumer), kBoth);
        });
  }
}

template <class Kernel>
TUTTI_DEVICE void startBarriers(WgmmaShared<Kernel::kColumns>& shared) {
  constexpr uint32_t kReaders =
      Kernel::kSchedule == GemmSchedule::Together ? kConsumerWarps : kConsumerWarps / kConsumers;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kWgmmaStages<Kernel::kColumns>; ++i) {
      ptx::mbarrierInit(sharedAddress(&shared.full[i]), 1);
      ptx::mbarrierInit(sharedAddress(&shared.empty[i]), kReaders * ptx::clusterSize());
    }
    ptx::fenceMbarrierInit();
  }
  ptx::clusterSync();
}

/// What is known of a kernel when it is compiled.
template <GemmSchedule kScheduleOf, ElementFormat kFormatOf, int kColumnsOf, Major kMajorOfA,
          Major kMajorOfB>
struct WgmmaKind {
  static constexpr GemmSchedule kSchedule = kScheduleOf;
  static constexpr ElementFormat kFormat = kFormatOf;
  static constexpr int kColumns = kColumnsOf;
  static constexpr Major kMajorA = kMajorOfA, kMajorB = kMajorOfB;
};

template <class Kernel>
__global__ void __launch_bounds__(kWgmmaThreads, 1) wgmmaGemm(const __grid_constant__ WgmmaGemm x) {
  auto& shared = *dynamicShared<WgmmaShared<Kernel::kColumns>>();
  startBarriers<Kernel>(shared);
  const int warpgroup = __shfl_sync(~0u, int(threadIdx.x) / kWarpgroup, 0);
  if (warpgroup == 0) {
    ptx::setMaxRegistersDown<40>();
    if (threadIdx.x == 0) produce<Kernel::kColumns, Kernel::kMajorA, Kernel::kMajorB>(shared, x);
    __syncwarp();
  } else {
    ptx::setMaxRegistersUp<232>();
    if constexpr (Kernel::kSchedule == GemmSchedule::Together)
      consumeTogether<Kernel>(shared, x, warpgroup - 1);
    else
      consumeInTurn<Kernel>(shared, x, warpgroup - 1);
  }
  ptx::clusterSync();  // no block leaves while the other one may write to its shared memory
}

}  // namespace tutti::parallel::cuda
