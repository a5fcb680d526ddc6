// Blocks that differ in size: the bits are those of the host executor, with slices too; and the
// tables that tell launches of them are recycled, but for those that graphs hold.

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "tests/executor/kernel/calls.h"
#include "tests/executor/kernel/networks.h"

namespace tutti::tests {
namespace {

/// Blocks of random sizes, a third of them empty, in a random order and with gaps.
std::vector<plan::Block> randomBlocks(int ranks, uint64_t mostElements, size_t elementBytes,
                                      std::mt19937_64& random) {
  std::vector<plan::Block> blocks(static_cast<size_t>(ranks));
  std::vector<size_t> order(blocks.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  uint64_t at = 0;
  for (const size_t rank : order) {
    const uint64_t elements = random() % 3 == 0 ? 0 : random() % (mostElements + 1);
    at += random() % 5;
    blocks[rank] = {at * elementBytes, elements * elementBytes};
    at += elements;
  }
  return blocks;
}

Call unevenCall(int ranks, uint64_t mostElements, std::mt19937_64& random) {
  for (const plan::PlanSpec& spec : allPlans(ranks, 1))
    if (spec.unevenSafe && spec.collective == plan::Collective::AllGather &&
        spec.protocol == plan::Protocol::Simple)
      return {.spec = spec, .blocks = randomBlocks(ranks, mostElements, 4, random)};
  throw std::runtime_error("there is no such plan");
}

class Uneven : public testing::TestWithParam<Wire> {
 protected:
  static void compare(int ranks, int seeds) {
    DeviceRanksOptions options{.ranks = ranks};
    options.layout.rings.channels = 4;
    DeviceRanks devices(options);
    std::mt19937_64 random(static_cast<uint64_t>(ranks));
    int plans = 0;
    for (const int channels : {1, 2})
      for (const plan::PlanSpec& spec : allPlans(ranks, channels)) {
        if (!spec.unevenSafe || spec.channels != channels) continue;
        ++plans;
        for (int seed = 0; seed < seeds; ++seed)
          for (const uint64_t most : {3, 200, 4001}) {
            const auto type = seed % 2 == 0 ? DataType::Float32 : DataType::BFloat16;
            Call call{.spec = spec, .type = type, .inPlace = random() % 2 == 0};
            call.blocks = randomBlocks(ranks, most, sizeOf(type), random);
            const uint32_t slices =
                1 + static_cast<uint32_t>(random()) % static_cast<uint32_t>(4 / channels);
            ASSERT_EQ(differenceFromHost(devices, call, GetParam(), random() % 2, slices), "")
                << slices << " slices";
          }
      }
    EXPECT_GT(plans, 4);
  }
};

TEST_P(Uneven, BlocksGiveTheHostsBits) {
  const std::vector<int> sizes = kThreadSanitized ? std::vector{3}
                                 : kSanitized     ? std::vector{2, 3}
                                                  : std::vector{2, 3, 5, 8};
  for (const int ranks : sizes) compare(ranks, kSanitized ? 1 : 2);
}

// Messages to other hosts have gaps where blocks are short.
TEST_P(Uneven, BlocksOfOtherHostsGiveTheHostsBits) {
  DeviceRanks devices({.ranks = 3,
                       .hosts = {0, 1, 1},
                       .network = badSimNetwork(1),
                       .directBytes = 300});  // of messages with gaps and without
  std::mt19937_64 random(3);
  for (const plan::PlanSpec& spec : allPlans(3, 1)) {
    if (!spec.unevenSafe || spec.protocol != plan::Protocol::Simple) continue;
    for (const uint64_t most : {3, 4001}) {
      const Call call{.spec = spec, .blocks = randomBlocks(3, most, 4, random)};
      for (const uint32_t slices : {1, 2})
        ASSERT_EQ(differenceFromHost(devices, call, GetParam(), 0, slices), "") << slices;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Wires, Uneven, testing::ValuesIn(kWires));

// They are more than each lane has a copy of, so the kernel reads them where they are.
TEST(ManyBlocks, StayInPinnedMemory) {
  constexpr int kRanks = 9;
  DeviceRanksOptions options{.ranks = kRanks};
  options.layout = {.rings = {.channels = 1, .slotCount = 2, .slotBytes = 1024},
                    .lowLatencyBytes = 1024};
  options.executor.blocks = 2;
  DeviceRanks devices(options);
  std::mt19937_64 random(1);
  for (const plan::PlanSpec& spec : allPlans(kRanks, 1)) {
    if (!spec.unevenSafe || spec.algorithm != plan::Algorithm::Ring) continue;
    const Call call{.spec = spec, .blocks = randomBlocks(kRanks, 300, 4, random)};
    ASSERT_EQ(differenceFromHost(devices, call, Wire::Simple), "");
  }
}

DeviceRanksOptions fewTables(size_t bytes) {
  DeviceRanksOptions options{.ranks = 2};
  options.executor.tableBytes = bytes;
  return options;
}

// The room is of three launches. The host is ahead of the device, and waits for it.
TEST(Tables, AreRecycledWhenLaunchesHaveEnded) {
  constexpr int kLaunches = 40;
  DeviceRanks ranks(fewTables(3 * 128));
  std::mt19937_64 random(1);
  const Call call = unevenCall(2, 500, random);
  ranks.begin(call, Wire::Simple, 1);
  for (int i = 0; i < kLaunches; ++i)
    for (int r = 0; r < 2; ++r) ranks.launch(r);
  for (int r = 0; r < 2; ++r) ranks.wait(r);
  const auto expected = hostResult(call, 1, ranks.slotBytes(Wire::Simple));
  for (int r = 0; r < 2; ++r) {
    EXPECT_FALSE(ranks.executor(r).failure());
    EXPECT_EQ(ranks.executor(r).completed(), static_cast<uint64_t>(kLaunches));
    EXPECT_EQ(ranks.buffer(r).download(), expected[r].bytes);
  }
}

// A rank that waits for room gives up when its launches have failed, or late.
TEST(Tables, AreNotAwaitedForEver) {
  DeviceRanksOptions options = fewTables(128);
  options.executor.deadlineNs = 30'000'000;
  DeviceRanks ranks(options);
  std::mt19937_64 random(1);
  ranks.begin(unevenCall(2, 500, random), Wire::Simple, 1);
  ranks.launch(0);
  EXPECT_THROW(ranks.launch(0), Error);
  ranks.wait(0);
}

TEST(Tables, OfGraphsStay) {
  DeviceRanks ranks(fewTables(2 * 128));
  std::mt19937_64 random(1);
  Call captured = unevenCall(2, 1, random);
  captured.blocks = {{0, 1600}, {1600, 2000}};
  const auto others = std::make_shared<const std::vector<plan::Block>>(
      std::vector<plan::Block>{{8, 400}, {600, 40}});
  ranks.begin(captured, Wire::Simple, 1);
  cudaGraphExec_t graphs[2] = {};
  for (int r = 0; r < 2; ++r) graphs[r] = ranks.capture(r);
  for (int i = 0; i < 4; ++i)
    for (int r = 0; r < 2; ++r) {
      DeviceLaunch launch = ranks.launchOf(r);
      launch.call.blocks = others;
      ranks.launch(r, launch);
    }
  for (int r = 0; r < 2; ++r) {
    const Memory memory = memoryOf(captured, r, 1);
    device::OnDevice on(ranks.deviceOf(r));
    TUTTI_CUDA(cudaMemcpyAsync(ranks.buffer(r).data(), memory.bytes.data(), memory.bytes.size(),
                               cudaMemcpyHostToDevice, ranks.stream(r)));
    TUTTI_CUDA(cudaGraphLaunch(graphs[r], ranks.stream(r)));
  }
  for (int r = 0; r < 2; ++r) ranks.wait(r);
  const auto expected = hostResult(captured, 1, ranks.slotBytes(Wire::Simple));
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(ranks.buffer(r).download(), expected[r].bytes);
    cudaGraphExecDestroy(graphs[r]);
  }
}

// What graphs hold is not waited for; when they are gone, of which CUDA tells when it likes, it is
// there again.
TEST(Tables, ThatGraphsHoldAreRefused) {
  DeviceRanks ranks(fewTables(128));
  std::mt19937_64 random(1);
  ranks.begin(unevenCall(2, 500, random), Wire::Simple, 1);
  const cudaGraphExec_t graph = ranks.capture(0);
  try {
    ranks.launch(0);
    FAIL() << "there is no room";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::OutOfMemory) << error.what();
  }
  cudaGraphExecDestroy(graph);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (bool isThere = false; !isThere;) try {
      ranks.launch(0);
      isThere = true;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::OutOfMemory) << error.what();
      ASSERT_LT(std::chrono::steady_clock::now(), end) << error.what();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  ranks.launch(1);
  for (int r = 0; r < 2; ++r) ranks.wait(r);
  EXPECT_EQ(ranks.executor(0).completed(), 1U);
}

TEST(Blocks, ThatAPlanCannotHaveAreRefused) {
  DeviceRanks ranks({.ranks = 2});
  ranks.begin(ringCall(2, 100), Wire::Simple, 1);
  const std::vector<plan::Block> blocks{{0, 4}, {4, 8}};
  const auto first = [&](size_t count) {
    return std::make_shared<const std::vector<plan::Block>>(blocks.begin(), blocks.begin() + count);
  };
  DeviceLaunch launch = ranks.launchOf(0);
  launch.call.blocks = first(2);
  EXPECT_THROW(launchOn(ranks.executor(0), launch, ranks.stream(0)), Error);
  std::mt19937_64 random(1);
  ranks.begin(unevenCall(2, 500, random), Wire::Simple, 1);
  launch = ranks.launchOf(0);
  launch.call.blocks = first(1);
  EXPECT_THROW(launchOn(ranks.executor(0), launch, ranks.stream(0)), Error);
}

}  // namespace
}  // namespace tutti::tests
