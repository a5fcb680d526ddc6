// mbarriers, clusters, bulk copies, and registers of warpgroups.

#include <gtest/gtest.h>

#include "tests/emulation/conformance/cluster_device.cuh"
#include "tests/emulation/conformance/golden.h"
#include "tests/emulation/conformance/matrix_device.cuh"
#include "tests/emulation/conformance/matrix_model.h"

namespace tutti::emulation::conformance {
namespace {

TEST(Cluster, MbarriersHavePhases) {
  const auto in = randomWords<uint32_t>(64, 1);
  const auto out =
      outputOf<uint32_t>(72, phases, {.block = dim3(64)}, DeviceArray<uint32_t>(in).get());
  // A fresh barrier is in phase 0: parity 0 has not completed, parity 1 counts as completed.
  std::vector<uint32_t> expected{0, 1, 1, 0, 0, 0, 1, 0};
  expected.insert(expected.end(), in.begin(), in.end());
  EXPECT_EQ(out, expected);
  expectGolden("mbarrier_phases", out);
}

TEST(Cluster, BlocksWriteToEachOther) {
  const auto in = randomWords<uint32_t>(32, 2);
  const auto out =
      outputOf<uint32_t>(64, neighbours, {.grid = dim3(4), .block = dim3(32), .cluster = dim3(4)},
                         DeviceArray<uint32_t>(in).get());
  for (uint32_t rank = 0; rank < 4; ++rank) {
    for (uint32_t i = 0; i < 7; ++i) {
      ASSERT_EQ(out[16 * rank + i], in[8 * ((rank + 3) % 4) + i]) << rank << " " << i;
      ASSERT_EQ(out[16 * rank + 7 + i], in[8 * ((rank + 1) % 4) + i]) << rank << " " << i;
    }
    ASSERT_EQ(out[16 * rank + 14], rank);
    ASSERT_EQ(out[16 * rank + 15], 4u);
  }
  expectGolden("cluster_neighbours", out);
}

TEST(Cluster, BulkCopiesReachSharedMemoryOfBlocks) {
  const auto in = randomWords<uint32_t>(128, 3);
  const auto out = outputOf<uint32_t>(256, sharedCopies,
                                      {.grid = dim3(2), .block = dim3(64), .cluster = dim3(2)},
                                      DeviceArray<uint32_t>(in).get());
  for (uint32_t i = 0; i < 64; ++i) {
    ASSERT_EQ(out[i], in[i]);
    ASSERT_EQ(out[64 + i], in[64 + i]);
    ASSERT_EQ(out[128 + i], in[i]);
    ASSERT_EQ(out[192 + i], 0u);
  }
  expectGolden("bulk_shared", out);
}

/// Elements of T in 512 bytes: `add` to what was there, once for each of two blocks.
template <Bulk kBulk, class T>
void expectBulk(const char* name, const std::vector<T>& before, const std::vector<T>& in) {
  const DeviceArray<T> source(in), target(before);
  check(cuda::launch(
      bulkStores<kBulk>, {.grid = dim3(kBulk == Bulk::Store ? 1 : 2), .block = dim3(128)},
      reinterpret_cast<uint32_t*>(target.get()), reinterpret_cast<const uint32_t*>(source.get())));
  check(cudaDeviceSynchronize());
  const auto out = target.download();
  for (size_t i = 0; i < in.size(); ++i) {
    const T expected = kBulk == Bulk::Store ? in[i] : T(before[i] + in[i] + in[i]);
    ASSERT_EQ(std::memcmp(&out[i], &expected, sizeof(T)), 0) << name << " " << i;
  }
  expectGolden(name, out);
}

TEST(Cluster, BulkStoresAndReductionsReachGlobalMemory) {
  expectBulk<Bulk::Store>("bulk_store", randomWords<uint32_t>(128, 4),
                          randomWords<uint32_t>(128, 5));
  expectBulk<Bulk::AddF32>("bulk_add_f32", randomIntegers<float>(128, 1000, 4),
                           randomIntegers<float>(128, 1000, 5));
  expectBulk<Bulk::AddF16>("bulk_add_f16", randomIntegers<__half>(256, 100, 4),
                           randomIntegers<__half>(256, 100, 5));
  expectBulk<Bulk::AddBf16>("bulk_add_bf16", randomIntegers<__nv_bfloat16>(256, 50, 4),
                            randomIntegers<__nv_bfloat16>(256, 50, 5));
  expectBulk<Bulk::AddS32>("bulk_add_s32", randomWords<uint32_t>(128, 4),
                           randomWords<uint32_t>(128, 5));
  expectBulk<Bulk::AddU64>("bulk_add_u64", randomWords<uint64_t>(64, 4),
                           randomWords<uint64_t>(64, 5));
}

TEST(Cluster, PairsOfFloatsAreAdded) {
  const auto in = randomIntegers<float>(64, 100, 6);
  const auto out = outputOf<float>(2, addPairs, {.block = dim3(64)}, DeviceArray<float>(in).get());
  float sum = 0;
  for (const float value : in) sum += value;
  EXPECT_EQ(out, (std::vector<float>{sum, 3 * 64}));
  expectGolden("red_add_f32", out);
}

TEST(Cluster, OneLaneIsElected) {
  const auto out = outputOf<uint32_t>(3, elections, {.block = dim3(96)});
  EXPECT_EQ(out, std::vector<uint32_t>(3, 1));
  expectGolden("elect", out);
}

TEST(Cluster, DependentLaunchesSeeWhatWasWritten) {
  DeviceArray<uint32_t> out(64);
  out.fill(0);
  for (int i = 0; i < 3; ++i)
    check(cuda::launch(dependent, {.block = dim3(64), .overlapsPrevious = true}, out.get()));
  check(cudaDeviceSynchronize());
  const auto words = out.download();
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(words[i], 3 * i);
  expectGolden("dependent_launches", words);
}

TEST(Cluster, WarpgroupsShareRegisters) {
  const auto in = randomWords<uint32_t>(kHeldWords, 7);
  const auto out = outputOf<uint32_t>(256, shareRegisters, {.block = dim3(384)},
                                      DeviceArray<uint32_t>(in).get());
  for (uint32_t thread = 0; thread < 256; ++thread) {
    std::vector<uint32_t> words(kHeldWords);
    for (uint32_t i = 0; i < kHeldWords; ++i) words[i] = in[(i + thread) % kHeldWords];
    for (uint32_t i = 0; i < kHeldWords; ++i) words[i] = 5 * words[i] + words[kHeldWords - 1 - i];
    uint32_t hash = 0;
    for (const uint32_t word : words) hash = 31 * hash + word;
    ASSERT_EQ(out[thread], hash) << thread;
  }
  expectGolden("set_max_registers", out);
}

/// stmatrix is ldmatrix the other way round.
template <int kCount, bool kTrans>
void expectStored() {
  const auto words = randomWords<uint32_t>(32 * kCount, kCount);
  const auto rows = outputOf<uint4>(8 * kCount, storeMatrices<kCount, kTrans>, {.block = dim3(32)},
                                    DeviceArray<uint32_t>(words).get());
  std::vector<uint16_t> halves(rows.size() * 8);
  std::memcpy(halves.data(), rows.data(), rows.size() * 16);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < kCount; ++i) {
      const auto element = [&](int column) {
        const int row = lane / 4;
        return halves[size_t(64 * i + (kTrans ? 8 * column + row : 8 * row + column))];
      };
      ASSERT_EQ(words[size_t(kCount * lane + i)],
                pairOf(element(2 * (lane % 4)), element(2 * (lane % 4) + 1)));
    }
  expectGolden("stmatrix_x" + std::to_string(kCount) + (kTrans ? "_trans" : ""), halves);
}

TEST(Cluster, MatricesAreStoredByAWarp) {
  expectStored<1, false>();
  expectStored<2, false>();
  expectStored<4, false>();
  expectStored<1, true>();
  expectStored<2, true>();
  expectStored<4, true>();
}

}  // namespace
}  // namespace tutti::emulation::conformance
