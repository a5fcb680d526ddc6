// Replicas of a plan side by side, each on a slice of every chunk: the bits are those of the host
// executor, whatever their number.

#include <gtest/gtest.h>

#include "collectives/algorithms.h"
#include "tests/executor/kernel/calls.h"

namespace tutti::tests {
namespace {

DeviceRanksOptions manyChannels(int ranks, int devices) {
  DeviceRanksOptions options{.ranks = ranks, .devices = devices};
  options.layout.rings.channels = 8;
  return options;
}

class Slices : public testing::TestWithParam<Wire> {};

const std::vector<uint32_t> kSlices =
    kSanitized ? std::vector<uint32_t>{3} : std::vector<uint32_t>{2, 3, 4, 8};
// All of them take ThreadSanitizer a quarter of an hour.
const std::vector<uint64_t> kCounts =
    kThreadSanitized ? std::vector<uint64_t>{77, 6007} : std::vector<uint64_t>{0, 1, 77, 6007};
const std::vector<DataType> kTypes =
    kThreadSanitized
        ? std::vector{DataType::Int8, DataType::Float64}
        : std::vector{DataType::Int8, DataType::BFloat16, DataType::Float32, DataType::Float64};
const std::vector<uint64_t> kShortCounts =
    kThreadSanitized ? std::vector<uint64_t>{63} : std::vector<uint64_t>{5, 63, 1001};

// Counts of nothing, one element, less than a slice for each replica, and several rounds. Plans of
// two channels have half as many replicas.
TEST_P(Slices, GiveTheHostsBits) {
  DeviceRanks devices(manyChannels(3, 4));
  for (const uint32_t slices : kSlices)
    for (const int channels : {1, 2})
      for (const plan::PlanSpec& spec : allPlans(3, channels))
        for (const uint64_t count : kCounts) {
          if (slices * static_cast<uint32_t>(spec.channels) > 8) continue;
          if (channels == 2 && (spec.channels == 1 || count != 6007)) continue;
          const Call call{.spec = spec, .count = count, .inPlace = count > 0 && slices % 2 == 1};
          ASSERT_EQ(differenceFromHost(devices, call, GetParam(), 0, slices), "") << slices;
        }
}

// Slices begin at multiples of 16 bytes within a chunk, so elements of every size stay whole.
TEST_P(Slices, OfAllSizesOfElementsAtAnyAddress) {
  DeviceRanks devices(manyChannels(2, 1));
  for (const DataType type : kTypes)
    for (const uint64_t count : kShortCounts)
      for (const size_t shift : {0, 1, 8})
        for (Call call : {ringCall(2, count), mappedCall(2, count)}) {
          call.type = type;
          ASSERT_EQ(differenceFromHost(devices, call, GetParam(), shift, 3), "") << shift;
        }
}

// Those of hierarchical plans do: each slice counts the steps of its own.
TEST_P(Slices, OfPlansWhoseLanesWaitForEachOther) {
  DeviceRanks devices(manyChannels(4, 4));
  int waiting = 0;
  for (const plan::PlanSpec& spec : allPlans(4, 1, {0, 0, 1, 1})) {
    if (spec.algorithm != plan::Algorithm::Hierarchical) continue;
    for (const plan::Lane& lane : collectives::build(spec, 0).lanes)
      for (const plan::Step& step : lane.steps) waiting += step.after.empty() ? 0 : 1;
    for (const uint32_t slices : {1, 4})
      for (const uint64_t count : {77, 9001}) {
        const Call call{.spec = spec, .count = count};
        ASSERT_EQ(differenceFromHost(devices, call, GetParam(), 0, slices), "") << slices;
      }
  }
  EXPECT_GT(waiting, 0);
}

// The only step of another lane, in several rounds: what it has done in the round before is not
// enough, nor that it has done nothing yet.
TEST_P(Slices, OfLanesThatWaitForStepsOfTheSameRound) {
  DeviceRanks ranks(manyChannels(2, 2));
  const plan::PlanSpec spec{.collective = plan::Collective::AllGather, .ranks = 2, .channels = 2};
  const Call call{.spec = spec, .count = 9001};
  for (const uint32_t slices : {1, 2}) {
    std::vector<Memory> memory;
    std::vector<DeviceBuffer> buffers;
    std::vector<std::unique_ptr<KernelPlan>> plans;
    for (int r = 0; r < 2; ++r) {
      memory.push_back(memoryOf(call, r, slices));
      buffers.emplace_back(ranks.deviceOf(r), memory[r].bytes, 0);
      plans.push_back(ranks.executor(r).prepareProgram(spec, echoProgram(r)));
      const auto its =
          call.on(r, buffers[r].data() + memory[r].in, buffers[r].data() + memory[r].out);
      launchOn(ranks.executor(r),
               {.plan = plans[r].get(), .call = its, .wire = GetParam(), .slices = slices},
               ranks.stream(r));
    }
    for (int r = 0; r < 2; ++r) ranks.wait(r);
    const Buffer result = buffers[0].download();
    const size_t bytes = call.blockOf(0).bytes;
    const Buffer own(&result[memory[0].in], &result[memory[0].in] + bytes);
    const std::byte* const back = &result[memory[0].out] + bytes;
    EXPECT_EQ(Buffer(back, back + bytes), own) << slices << " slices";
  }
}

// Also where the first message has the same bytes.
TEST_P(Slices, ThatDifferAreAMismatch) {
  for (const uint64_t count : {1, 300}) {
    DeviceRanks ranks(manyChannels(2, 2));
    ranks.begin(ringCall(2, count), GetParam(), 1);
    for (int r = 0; r < 2; ++r) {
      DeviceLaunch launch = ranks.launchOf(r);
      launch.slices = r == 0 ? 1 : 2;
      ranks.launch(r, launch);
    }
    bool isMismatch = false;
    for (int r = 0; r < 2; ++r) ranks.wait(r);
    for (int r = 0; r < 2; ++r) {
      const auto error = ranks.executor(r).failure();
      ASSERT_TRUE(error) << "rank " << r;
      isMismatch |= error->code() == ErrorCode::Mismatch;
    }
    EXPECT_TRUE(isMismatch);
  }
}

// The root receives nothing and finds nothing, and only one lane of the other rank does.
TEST_P(Slices, AllEndWhenOneHasFoundAMismatch) {
  DeviceRanks ranks(manyChannels(2, 2));
  const Call call{
      .spec = planOf(plan::Algorithm::Ring, plan::Collective::Broadcast, plan::Protocol::Simple, 2),
      .count = 300};
  ranks.begin(call, GetParam(), 1);
  for (int r = 0; r < 2; ++r) {
    DeviceLaunch launch = ranks.launchOf(r);
    launch.slices = r == call.spec.root ? 1 : 2;
    ranks.launch(r, launch);
  }
  for (int r = 0; r < 2; ++r) ranks.wait(r);
  const auto error = ranks.executor(1 - call.spec.root).failure();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::Mismatch) << error->what();
}

INSTANTIATE_TEST_SUITE_P(Wires, Slices, testing::ValuesIn(kWires));

// Each has channels of its own, and its lanes have room in the blocks.
TEST(MostSlices, FollowFromChannelsAndBlocks) {
  DeviceRanksOptions options = manyChannels(2, 2);
  options.executor.blocks = 1;
  DeviceRanks ranks(options);
  ranks.begin(ringCall(2, 300), Wire::Simple, 1);
  const uint32_t most = ranks.plan(0).mostSlices();
  EXPECT_EQ(most, 8U);
  EXPECT_EQ(ranks.plan(0).blocks(most), 1U);
  for (const uint32_t slices : {0U, most + 1}) {
    DeviceLaunch launch = ranks.launchOf(0);
    launch.slices = slices;
    EXPECT_THROW(launchOn(ranks.executor(0), launch, ranks.stream(0)), Error) << slices;
  }
  const Call call = ringCall(2, 10);
  plan::Program program;
  program.lanes.resize(4);
  EXPECT_EQ(ranks.executor(0).prepareProgram(call.spec, program)->mostSlices(), 3U);
}

// More than one block waits for the others, so all of them are reserved.
TEST(MostSlices, AreSpreadOverTheBlocks) {
  DeviceRanks ranks(manyChannels(2, 2));
  ranks.begin(ringCall(2, 300), Wire::Simple, 1);
  EXPECT_EQ(ranks.plan(0).blocks(1), 1U);
  EXPECT_EQ(ranks.plan(0).blocks(8), 8U);
}

}  // namespace
}  // namespace tutti::tests
