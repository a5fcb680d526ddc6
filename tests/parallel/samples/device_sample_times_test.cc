// What the samples time on a GPU begins when its stream has done what came before, and ends when
// the stream has done it, not when it is enqueued.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <regex>
#include <string>
#include <thread>

#include "parallel/samples/fsdp_tp/layout_comparison.h"
#include "parallel/samples/reports/timed_lines.h"

namespace tutti::parallel {
namespace {

using Clock = std::chrono::steady_clock;

/// A GPU whose stream sleeps where it should compute.
class Sleeping {
 public:
  void sleep() {
    awake_ = false;
    mesh.backing().stream->enqueue([this] {
      const auto begin = Clock::now();
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      microseconds_ = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
      awake_ = true;
    });
  }
  bool awake() const { return awake_; }
  /// How long it has slept.
  double microseconds() const { return microseconds_; }
  DeviceMesh mesh{Device{DeviceKind::Cuda, 0}};

 private:
  std::atomic<bool> awake_{true};
  std::atomic<double> microseconds_{0};
};

TEST(SampleTimes, OfStepsAreTheStreams) {
  Sleeping gpu;
  StepTimes times(gpu.mesh);
  gpu.sleep();
  times.measure([&] { EXPECT_TRUE(gpu.awake()); });  // the first one does not count
  times.measure([&] { gpu.sleep(); });
  EXPECT_TRUE(gpu.awake());
  EXPECT_GE(1e3 * times.medianMilliseconds(), gpu.microseconds());
}

TEST(SampleTimes, OfLinesAreTheStreams) {
  Sleeping gpu;
  TimedLines lines(gpu.mesh);
  gpu.sleep();
  lines.start();
  EXPECT_TRUE(gpu.awake());
  gpu.sleep();
  lines.add("sleeps", "on a stream");
  EXPECT_TRUE(gpu.awake());
  std::smatch found;
  const std::string text = lines.text();
  ASSERT_TRUE(std::regex_search(text, found, std::regex(", ([0-9]+) us"))) << text;
  EXPECT_GE(std::stod(found[1]), gpu.microseconds() - 1);  // rounded
}

}  // namespace
}  // namespace tutti::parallel
