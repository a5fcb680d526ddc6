// The time of a step on a GPU begins when the stream has done what came before, and ends when the
// stream has done the step, not when it is enqueued.

#include "parallel/samples/fsdp_tp/layout_comparison.h"

#include <gtest/gtest.h>

#include "tests/parallel/samples/sleeping_gpu.h"

namespace tutti::parallel {
namespace {

TEST(StepTimes, AreTheStreams) {
  SleepingGpu gpu;
  StepTimes times(gpu.mesh);
  gpu.sleep();
  times.measure([&] { EXPECT_TRUE(gpu.awake()); });  // the first one does not count
  times.measure([&] { gpu.sleep(); });
  EXPECT_TRUE(gpu.awake());
  EXPECT_GE(1e3 * times.medianMilliseconds(), gpu.microseconds());
}

}  // namespace
}  // namespace tutti::parallel
