// Processes whose data go by copies, of which one's arrive wrong, so that memory of the host joins
// the two: they share a GPU, or have one each. The test's process itself never calls CUDA.

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

/// What an AllReduce of ranks on so many devices says, or where its values are wrong.
Outcome outcomeOn(const Context& context, int devices, std::string& described) {
  Communicator c = context.join({.device = gpu(context.rank % devices), .gpuCopies = true});
  described = c.describe();
  const Floats values(c.device(), kCount, 1);
  const Outcome outcome = outcomeOf([&] {
    c.allReduce(
        {.send = values.data(), .recv = values.data(), .count = kCount, .type = DataType::Float32});
  });
  EXPECT_TRUE(values.are(3));
  c.barrier();
  return outcome;
}

// The rank whose bytes they are sees nothing of it, and is told.
TEST(GpuProbe, OfAPairThatLiesByCopiesLeavesItToTheHost) {
  for (const int devices : {1, 2, 3}) {
    RankProcesses ranks(3, [&](const Context& context) {
      if (context.rank == 1) emulation::corruptCopies(1 % devices, 0);
      std::string described;
      const Outcome outcome = outcomeOn(context, devices, described);
      EXPECT_EQ(outcome.text, "no error");
      const bool isConcerned = context.rank == 1 || described.find("because") != described.npos;
      for (const char* const words :
           {" through memory of the host, with copies, because what rank 1 wrote arrived wrong at "
            "rank ",
            " on device 0, from byte 0 of 16384"})
        EXPECT_EQ(described.find(words) != described.npos, isConcerned) << described;
      EXPECT_TRUE(isConcerned || context.rank != 0);
      if (testing::Test::HasFailure()) context.say(outcome.text + described);
      return testing::Test::HasFailure() ? 1 : 0;
    });
    EXPECT_TRUE(ranks.allSucceed(60s)) << devices << " devices";
  }
}

TEST(GpuProbe, OfHonestPairsJoinsThem) {
  for (const int devices : {1, 2, 3}) {
    RankProcesses ranks(3, [&](const Context& context) {
      std::string described;
      const Outcome outcome = outcomeOn(context, devices, described);
      context.say(outcome.text + described);
      return outcome.text == "no error" && described.find("because") == described.npos ? 0 : 1;
    });
    EXPECT_TRUE(ranks.allSucceed(60s)) << devices << " devices";
  }
}

}  // namespace
}  // namespace tutti::tests
