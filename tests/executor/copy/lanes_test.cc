// Lanes of one rank that wait for each other, and what the host sees of them meanwhile.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#include "tests/executor/copy/copy_ranks.h"

namespace tutti::tests {
namespace {

using plan::Buffer;
using plan::channel;
using plan::local;

/// Ranks 0 and 2 give their blocks to rank 1: rank 0 in three messages, the last one larger, of
/// which rank 1 takes the second when it has rank 2's.
plan::Program heldProgram(int rank) {
  if (rank == 0)
    return {{{.channel = 0,
              .steps = {{.sources = {local(Buffer::In, 0)}, .targets = {channel(1, 0)}},
                        {.sources = {local(Buffer::In, 1)}, .targets = {channel(1, 1)}},
                        {.sources = {local(Buffer::In, 2, 2)}, .targets = {channel(1, 2, 2)}}}}}};
  if (rank == 2)
    return {{{.channel = 1,
              .steps = {{.sources = {local(Buffer::In, 0, 4)}, .targets = {channel(1, 0, 4)}}}}}};
  return {
      {{.channel = 0,
        .steps = {{.sources = {channel(0, 0)}, .targets = {local(Buffer::Out, 0)}},
                  {.sources = {channel(0, 1)},
                   .targets = {local(Buffer::Out, 1)},
                   .after = {{.lane = 1, .step = 0}}},
                  {.sources = {channel(0, 2, 2)}, .targets = {local(Buffer::Out, 2, 2)}}}},
       {.channel = 1,
        .steps = {{.sources = {channel(2, 0, 4)}, .targets = {local(Buffer::Out, 8, 4)}},
                  {.sources = {local(Buffer::In, 0, 4)}, .targets = {local(Buffer::Out, 4, 4)}}}}}};
}

const plan::PlanSpec kHeld{.collective = plan::Collective::Gather,
                           .algorithm = plan::Algorithm::Pairwise,
                           .ranks = 3,
                           .root = 1,
                           .channels = 2,
                           .divisions = 4,
                           .messageChunks = 4,
                           .minSlots = 2};

constexpr uint64_t kCount = 300;

std::vector<float> valuesOf(int rank) {
  std::vector<float> values;
  for (uint64_t i = 0; i < kCount; ++i)
    values.push_back(static_cast<float>(1000 * rank) + static_cast<float>(i));
  return values;
}

// The third message lies in the first one's slot, for which nobody waits any more.
TEST(CopyLanes, ThatHaveTheirMessageDoNotWaitForItWhileOthersHoldThemUp) {
  if (devicesOf(3) < 3) GTEST_SKIP() << "it wants three devices";
  transports::p2p::P2pLayout layout = kCopyLayout;
  layout.rings.slotCount = 2;
  CopyRanks ranks({.ranks = 3, .devices = 3, .layout = layout});
  std::vector<std::unique_ptr<executor::PreparedPlan>> plans;
  std::vector<DeviceBuffer> in;
  for (int r = 0; r < 3; ++r) {
    plans.push_back(ranks.executor(r).prepare(kHeld, heldProgram));
    const std::vector<float> values = valuesOf(r);
    const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
    in.emplace_back(r, tests::Buffer(bytes, bytes + 4 * kCount), 0);
  }
  DeviceBuffer out(1, tests::Buffer(3 * 4 * kCount), 0);
  const auto launch = [&](int r) {
    ranks.launch(r, {plans[r].get(),
                     {.facts = {.type = DataType::Float32, .count = kCount},
                      .in = in[r].data(),
                      .out = r == 1 ? out.data() : nullptr,
                      .callHash = 9}});
  };
  launch(0);
  launch(1);
  for (int look = 0; look < 300; ++look) {
    for (int r = 0; r < 3; ++r) ranks.executor(r).watch();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  EXPECT_TRUE(ranks.executor(1).isRunning());
  EXPECT_EQ(ranks.executor(1).awaited(std::chrono::nanoseconds(0)), std::vector<int>{2});
  launch(2);
  ranks.finish();
  for (int r = 0; r < 3; ++r) EXPECT_EQ(std::string(ranks.failureOf(r).what()), "");
  EXPECT_FALSE(ranks.executor(1).isRunning());
  std::vector<float> expected;
  for (int r = 0; r < 3; ++r) std::ranges::copy(valuesOf(r), std::back_inserter(expected));
  const tests::Buffer got = out.download();
  EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size()), 0);
}

}  // namespace
}  // namespace tutti::tests
