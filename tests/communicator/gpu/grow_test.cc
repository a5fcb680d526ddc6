// Communicators on GPUs that grow, by threads and by processes. The test's process itself never
// calls CUDA.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/communicator/gpu/ranks.h"
#include "tests/support/growing_ranks.h"
#include "tests/support/local_ranks.h"
#include "tests/support/text.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;

const CommunicatorOptions kOptions{.setupTimeout = 100s, .timeout = 100s};

/// Rank r on device r modulo `devices`, or modulo as many as there are.
void place(int rank, int devices, CommunicatorOptions& options) {
  options.device = gpu(rank % std::min(devices, deviceCount(DeviceKind::Cuda)));
}

/// The grown one and the one that it comes from work beside each other.
void checkBoth(const Context& context, Communicator& c, const GrowArgs& args) {
  Communicator grown = c.grow(args);
  EXPECT_EQ(grown.device(), c.device());
  checkAllSizes(grown, {true});
  checkAllSizes(c, {false});
  grown.barrier();
  context.say("done");
}

void checkNew(const Context& context, const CommunicatorOptions& options) {
  Communicator c = Communicator::create(options);
  checkAllSizes(c, {true});
  c.barrier();
  context.say("done");
}

// By kernels on GPUs of their own, and by copies where the new process shares one.
TEST(GpuGrow, AProcessJoinsProcesses) {
  for (const int devices : {3, 2}) {
    GrowingRanks job{.options = kOptions};
    job.adjust = [=](int rank, CommunicatorOptions& options) { place(rank, devices, options); };
    job.old = checkBoth;
    job.fresh = checkNew;
    const auto ranks = job.start();
    EXPECT_TRUE(ranks->allSucceed(100s)) << devices;
    for (int r = 0; r < 3; ++r) EXPECT_TRUE(contains(ranks->output(r), "done")) << r;
  }
}

TEST(GpuGrow, AThreadJoinsThreads) {
  RankProcesses one(1, [](const Context& context) {
    CommunicatorOptions options = kOptions;
    auto ranks = makeRanks(2, 2, options);
    options.id = ranks[1].growId();
    options.rank = 2;
    options.size = 3;
    place(2, 3, options);
    std::jthread third([&] { checkNew(context, options); });
    runRanks(ranks, [&](Communicator& c) {
      GrowArgs args{.size = 3};
      if (c.rank() == 1) args.id = options.id;
      checkBoth(context, c, args);
    });
    return 0;
  });
  EXPECT_TRUE(one.allSucceed(100s));
}

}  // namespace
}  // namespace tutti::tests
