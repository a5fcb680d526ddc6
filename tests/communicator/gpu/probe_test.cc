// Processes whose data go by copies, of which one's arrive wrong: they share a GPU, or have one
// each. The test's process itself never calls CUDA.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/communicator/gpu/ranks.h"
#include "tests/emulation/runtime/peer.h"
#include "tests/support/rank_processes.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;

constexpr size_t kCount = 5000;

/// What an AllReduce of ranks on so many devices says.
Outcome outcomeOn(const Context& context, int devices) {
  Communicator c = context.join({.device = gpu(context.rank % devices), .gpuCopies = true});
  const Floats values(c.device(), kCount, 1);
  const Outcome outcome = outcomeOf([&] {
    c.allReduce(
        {.send = values.data(), .recv = values.data(), .count = kCount, .type = DataType::Float32});
  });
  c.barrier();
  return outcome;
}

// The rank whose bytes they are sees nothing of it, and is told.
TEST(GpuProbe, OfAPairThatLiesByCopiesTellsAllRanksWhich) {
  for (const int devices : {1, 2, 3}) {
    RankProcesses ranks(3, [&](const Context& context) {
      if (context.rank == 1) emulation::corruptCopies(1 % devices, 0);
      const Outcome outcome = outcomeOn(context, devices);
      expectError(outcome, ErrorCode::Unsupported, "the ranks' GPUs are not joined");
      for (const char* const words :
           {"what rank 1 wrote arrived wrong at rank ", " on device 0, from byte 0 of 16384"})
        expectError(outcome, ErrorCode::Unsupported, words);
      if (testing::Test::HasFailure()) context.say(outcome.text);
      return testing::Test::HasFailure() ? 1 : 0;
    });
    EXPECT_TRUE(ranks.allSucceed(60s)) << devices << " devices";
  }
}

TEST(GpuProbe, OfHonestPairsJoinsThem) {
  for (const int devices : {1, 2, 3}) {
    RankProcesses ranks(3, [&](const Context& context) {
      const Outcome outcome = outcomeOn(context, devices);
      context.say(outcome.text);
      return outcome.text == "no error" ? 0 : 1;
    });
    EXPECT_TRUE(ranks.allSucceed(60s)) << devices << " devices";
  }
}

}  // namespace
}  // namespace tutti::tests
