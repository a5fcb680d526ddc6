// The emulation itself: threads, blocks, clusters, grids and launches side by side, and that it
// tells what is wrong with a kernel. The same source runs on a GPU, the errors aside.

#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

#include <tutti/cuda/launch.h>

#include "tests/emulation/core_device.cuh"
#include "tests/emulation/emulation.h"
#include "tests/emulation/tensor_map.h"

namespace tutti::emulation::core {
namespace {

using cuda::launch;

class Seeds : public testing::TestWithParam<uint64_t> {};

/// run() with a seed: what launch() does, without a runtime between.
void runSeeded(Launch work, uint64_t seed, std::function<void()> body) {
  work.kernel = "a kernel of this test";
  work.body = std::move(body);
  work.seed = seed;
  run(work);
}

TEST_P(Seeds, ThreadsHaveTheirIndices) {
  std::vector<int> out(2 * 3 * 2 * 5 * 7 * 3, -1);
  runSeeded({.grid = {2, 3, 2}, .block = {5, 7, 3}}, GetParam(), [&] { indices(out.data()); });
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], int(i / 105 * 1000 + i % 105)) << i;
}

TEST_P(Seeds, BarriersOrderSharedMemory) {
  for (const unsigned threads : {1u, 31u, 32u, 33u, 256u, 1024u}) {
    const unsigned blocks = 7;
    std::vector<int> data(blocks * threads);
    std::iota(data.begin(), data.end(), 0);
    runSeeded({.grid = {blocks}, .block = {threads}}, GetParam(), [&] { reverse(data.data()); });
    for (unsigned i = 0; i < data.size(); ++i)
      ASSERT_EQ(data[i], int(i / threads * threads + threads - 1 - i % threads)) << threads;
  }
}

TEST_P(Seeds, BlocksOfAClusterReadEachOther) {
  for (const unsigned size : {1u, 2u, 4u, 8u}) {
    std::vector<uint32_t> out(8);
    runSeeded({.grid = {8}, .block = {64}, .cluster = {size}}, GetParam(),
              [&] { clusterSum(out.data()); });
    for (unsigned i = 0; i < 8; ++i) {
      const unsigned first = i / size * size + 1;
      ASSERT_EQ(out[i], size * first + size * (size - 1) / 2) << size;
    }
  }
}

TEST_P(Seeds, GridsMeet) {
  std::vector<uint32_t> held(12), out(12);
  runSeeded({.grid = {12}, .block = {64}, .cooperative = true}, GetParam(),
            [&] { gridSum(held.data(), out.data(), 3); });
  for (const uint32_t sum : out) EXPECT_EQ(sum, 66u + 12 * 2);
}

TEST_P(Seeds, ABlockIsAdmittedForWhichOthersWait) {
  uint32_t flag = 0;
  std::vector<uint32_t> data(32);
  runSeeded({.grid = {300}, .block = {32}}, GetParam(), [&] { waitForLast(&flag, data.data()); });
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(data[i], i + 1);
}

TEST_P(Seeds, LaunchesRunSideBySide) {
  constexpr int kLaunches = 4;
  std::vector<uint32_t> counters(kLaunches);
  std::vector<std::thread> streams;
  for (int i = 0; i < kLaunches; ++i)
    streams.emplace_back([&, i] {
      runSeeded({.grid = {2}, .block = {64}, .device = i}, GetParam(), [&] {
        if (threadIdx.x == 0) cuda::ptx::redAddReleaseSys(&counters[size_t(i)], 1u);
        for (uint32_t& counter : counters)
          while (cuda::ptx::ldAcquireSys(&counter) < 2) cuda::spinHint();
      });
    });
  for (std::thread& stream : streams) stream.join();
  for (const uint32_t counter : counters) EXPECT_EQ(counter, 2u);
}

INSTANTIATE_TEST_SUITE_P(Core, Seeds, testing::Values(0, 1, 2, 3));

/// Of a tensor of four words, which a box holds.
CUtensorMap mapOf(uint32_t* words) {
  alignas(128) CUtensorMap map{};
  const cuuint64_t size = 4, unused = 16;
  const cuuint32_t box = 4, stride = 1;
  EXPECT_EQ(encodeTensorMap(&map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 1, words, &size, &unused, &box,
                            &stride, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                            CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
            CUDA_SUCCESS);
  return map;
}

void launchWrong(Wrong what, const cuda::LaunchConfig& config) {
  setenv("TUTTI_EMULATION_TIMEOUT", "1", 1);
  alignas(128) CUtensorMap map{};
  alignas(16) uint32_t flag[4] = {};
  if (what >= Wrong::MisalignedLoad) map = mapOf(flag);
  EXPECT_EQ(launch(wrong, config, what, &flag[0], map), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::exit(0);
}

/// What the kernel does wrong ends the process, and stderr says what and where.
void expectReport(Wrong what, const char* text,
                  const cuda::LaunchConfig& config = {.block = {64}}) {
  EXPECT_EXIT(launchWrong(what, config), testing::ExitedWithCode(kErrorStatus), text);
}

class Errors : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(Errors, OfBarriers) {
  expectReport(Wrong::DivergentBarrier,
               "core_device.cuh:[0-9]+: divergent __syncthreads.*\n.*wrong");
  expectReport(Wrong::MissingArrival, "deadlock.*\n.*thread 0 waits in bar.sync at .*core_device");
  expectReport(Wrong::NeverRaised, "no progress.*\n.*waits in spinHint");
  expectReport(Wrong::GridSync, "not cooperative");
}

TEST_F(Errors, OfWarps) {
  expectReport(Wrong::WarpMask, "lane [0-9]+ is not in its own mask 00000001");
  expectReport(Wrong::MissingLane, "deadlock|reads lane");
}

TEST_F(Errors, OfMbarriers) {
  expectReport(Wrong::UninitialisedBarrier, "no mbarrier was initialised");
  expectReport(Wrong::TooManyArrivals, "more arrivals at an mbarrier than its count of 65");
}

TEST_F(Errors, OfSharedMemory) {
  expectReport(Wrong::Misaligned, "is no multiple of 16");
  expectReport(Wrong::OutsideShared, "outside the block's shared memory");
  expectReport(Wrong::ExitedPeer, "has exited", {.grid = {2}, .block = {64}, .cluster = {2}});
}

TEST_F(Errors, OfAsynchronousCopies) {
  expectReport(Wrong::CopyNotWaited, "cp.async copies that it never waited for");
  expectReport(Wrong::StoreNotWaited, "bulk stores that it never waited for");
  expectReport(Wrong::NotATensorMap, "no tensor map");
  const std::pair<Wrong, const char*> boxes[] = {{Wrong::MisalignedLoad, "12"},
                                                 {Wrong::MisalignedMulticast, "8"},
                                                 {Wrong::MisalignedStore, "-4"},
                                                 {Wrong::MisalignedReduction, "20"}};
  for (const auto& [what, byte] : boxes)
    expectReport(what, (std::string("core_device.cuh:[0-9]+: .*begins at byte ") + byte +
                        " of its rows, which is no multiple of 16")
                           .c_str());
}

TEST_F(Errors, OfTensorStoresOutside) {
  constexpr const char *kBefore = "inside the tensor: dimension 0 has 4 .* from -4 to 0",
                       *kBeyond = "inside the tensor: dimension 0 has 4 .* from 4 to 8";
  const std::string store = "core_device.cuh:[0-9]+: .*cp.async.bulk.tensor to global .*",
                    reduction = "core_device.cuh:[0-9]+: .*cp.reduce.async.bulk.tensor .*";
  expectReport(Wrong::StoreBefore, (store + kBefore).c_str());
  expectReport(Wrong::StoreBeyond, (store + kBeyond).c_str());
  expectReport(Wrong::ReductionBefore, (reduction + kBefore).c_str());
  expectReport(Wrong::ReductionBeyond, (reduction + kBeyond).c_str());
}

void launchWrongRegisters(WrongRegisters what) {
  EXPECT_EQ(launch(wrongRegisters, {.block = {384}}, what), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::exit(0);
}

// Who is first is a matter of the seed.
TEST_F(Errors, OfRegisters) {
  const std::pair<WrongRegisters, const char*> cases[] = {
      {WrongRegisters::PartOfAWarp, "deadlock.*\n.*a warp collective"},
      {WrongRegisters::PartOfAWarpgroup, "exits without a setmaxnreg that others"},
      {WrongRegisters::AfterOthersLeft,
       "dec to 40, but thread [0-9]+ of the warpgroup has exited|exits without a setmaxnreg that "
       "others"},
      {WrongRegisters::OthersTakeMore,
       "dec to (24|40), but others of the warpgroup execute setmaxnreg.dec to (40|24)"},
      {WrongRegisters::Again,
       "dec to 24 before all threads of the warpgroup have executed "
       "setmaxnreg.dec to 40"},
      {WrongRegisters::FewerByUp, "inc to 24 by threads that have 40"},
      {WrongRegisters::MoreByDown, "dec to 48 by threads that have 40"},
      {WrongRegisters::MoreThanThereAre, "deadlock.*\n.*waits in setmaxnreg.inc"}};
  for (const auto& [what, text] : cases)
    EXPECT_EXIT(launchWrongRegisters(what), testing::ExitedWithCode(kErrorStatus), text);
}

template <int kRegisters>
concept CanBeSet = requires {
  cuda::ptx::setMaxRegistersUp<kRegisters>();
};

TEST_F(Errors, OfNumbersOfRegisters) {
  static_assert(CanBeSet<24> && CanBeSet<256>);
  static_assert(!CanBeSet<16> && !CanBeSet<36> && !CanBeSet<264>);
}

void launchMapReplaced(MapFence missing) {
  alignas(16) uint32_t words[2][4] = {};
  CUtensorMap map = mapOf(words[0]);
  const CUtensorMap next = mapOf(words[1]);
  EXPECT_EQ(launch(replaceMap, {}, &map, &next, missing), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::exit(0);
}

TEST_F(Errors, OfFencesOfTensorMaps) {
  EXPECT_EXIT(launchMapReplaced(MapFence::None), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(launchMapReplaced(MapFence::Acquire), testing::ExitedWithCode(kErrorStatus),
              "core_device.cuh:[0-9]+: .*is used without fence.proxy.tensormap::generic.acquire");
  EXPECT_EXIT(launchMapReplaced(MapFence::Release), testing::ExitedWithCode(kErrorStatus),
              "core_device.cuh:[0-9]+: .*no thread has executed .*generic.release since");
}

}  // namespace
}  // namespace tutti::emulation::core
