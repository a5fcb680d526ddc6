// CUDA refuses a call in the middle of a launch whose lanes have streams of their own.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

#include "tests/emulation/runtime/failing_call.h"
#include "tests/executor/copy/copy_ranks.h"

namespace tutti::tests {
namespace {

using Enqueue = std::function<void(CopyRanks&)>;

constexpr int kFill = 0x5a;

/// A part of a launch of rank 0, whose peers never come, is enqueued: all but the call after
/// `calls` others, and what would have been behind it. Then its stream fills `buffer`. Whether
/// there was such a call.
bool fillsBehindARefusedLaunch(CopyRanks& ranks, DeviceBuffer& buffer, int calls,
                               const Enqueue& enqueue) {
  const size_t bytes = buffer.download().size();
  const device::OnDevice on(ranks.deviceOf(0));
  bool hasFailed = false;
  {
    const emulation::FailingCall failing(calls, cudaErrorUnknown);
    try {
      enqueue(ranks);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Cuda) << error.what();
    }
    hasFailed = failing.hasFailed();
  }
  TUTTI_CUDA(cudaMemsetAsync(buffer.data(), kFill, bytes, ranks.stream(0)));
  std::this_thread::sleep_for(std::chrono::milliseconds(2));  // for a stream that waits for nothing
  ranks.executor(0).abort();
  TUTTI_CUDA(cudaDeviceSynchronize());  // the device is rank 0's alone
  EXPECT_EQ(buffer.download(), Buffer(bytes, std::byte{kFill})) << "after " << calls << " calls";
  return hasFailed;
}

// What its lanes copy when they are opened is no news to whoever has given the buffer to others
// behind the stream.
TEST(CopyRefusals, OfALaunchLeaveNothingThatGoesOnBehindTheStream) {
  const plan::PlanSpec spec =
      planOf(plan::Algorithm::DoubleTree, plan::Collective::AllReduce, plan::Protocol::Simple, 3);
  ASSERT_GT(programsOf(spec)(0).lanes.size(), 1U);
  int failures = 0;
  for (bool hasFailed = true; hasFailed; ++failures) {
    CopyRanks ranks({.ranks = 3});
    ranks.begin({.spec = spec, .count = 9000}, 1);
    hasFailed = fillsBehindARefusedLaunch(ranks, ranks.buffer(0), failures,
                                          [](CopyRanks& all) { all.launch(0); });
  }
  EXPECT_GT(failures, 20);
}

TEST(CopyRefusals, OfAnExchangeLeaveNothingThatGoesOnBehindTheStream) {
  constexpr size_t kBytes = 3 * 4096;
  int failures = 0;
  for (bool hasFailed = true; hasFailed; ++failures) {
    CopyRanks ranks({.ranks = 3});
    DeviceBuffer buffer(0, Buffer(2 * kBytes), 0);
    const Exchange exchange{
        .receives = {{1, buffer.data(), kBytes}, {2, buffer.data() + kBytes, kBytes}}};
    hasFailed = fillsBehindARefusedLaunch(ranks, buffer, failures, [&](CopyRanks& all) {
      exchangeOn(all.executor(0), exchange, all.stream(0));
    });
  }
  EXPECT_GT(failures, 20);
}

}  // namespace
}  // namespace tutti::tests
