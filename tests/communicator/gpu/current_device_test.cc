// Whatever device is current where a program calls: it is so afterwards.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "tests/communicator/gpu/ranks.h"

namespace tutti::tests {
namespace {

constexpr size_t kCount = 5000;

class GpuCurrentDevice : public CudaTest, public testing::WithParamInterface<bool> {
 protected:
  /// Of both ranks in turn, with and without a stream.
  template <class Call>
  void callAll(const char* what, const Call& call) {
    onEveryDevice(what, [&] {
      for (int r = 0; r < 2; ++r) call(r, StreamRef(s_->streams[r]));
      for (Stream& stream : s_->streams) stream.synchronize();
      Group group;
      for (int r = 0; r < 2; ++r) call(r, StreamRef());
      group.end();
    });
  }
  std::optional<Setting> s_;
};

TEST_P(GpuCurrentDevice, StaysAfterEveryCall) {
  onEveryDevice("create and destroy",
                [&] { s_.emplace(2, 2, kCount, CommunicatorOptions{.gpuCopies = GetParam()}); });
  callAll("allReduce",
          [&](int r, StreamRef stream) { s_->ranks[r].allReduce(s_->args(r, kCount), stream); });
  callAll("barrier", [&](int r, StreamRef stream) { s_->ranks[r].barrier(stream); });
  onEveryDevice("send and receive", [&] {
    Group group;
    for (int r = 0; r < 2; ++r) {
      s_->ranks[r].send({s_->values[r].data(), 10, DataType::Float32, 1 - r}, s_->streams[r]);
      s_->ranks[r].receive({s_->values[r].data() + 10, 10, DataType::Float32, 1 - r},
                           s_->streams[r]);
    }
    group.end();
    for (Stream& stream : s_->streams) stream.synchronize();
  });
  onEveryDevice("split", [&] {
    std::thread other([&] { s_->ranks[1].split(0, 1); });
    s_->ranks[0].split(0, 0);
    other.join();
  });
  onEveryDevice("capture", [&] {
    const int current = currentDevice();
    checkReplays(*s_, kCount, 1, 1);
    ASSERT_EQ(cudaSetDevice(current), cudaSuccess);
  });
  onEveryDevice("describe", [&] { s_->ranks[0].describe(); });
  onEveryDevice("refused", [&] {
    EXPECT_THROW(s_->ranks[0].send({s_->values[0].data(), 1, DataType::Float32, 7}), Error);
  });
  onEveryDevice("abort", [&] { s_->ranks[1].abort(); });
  onEveryDevice("a failed call",
                [&] { EXPECT_THROW(s_->ranks[0].allReduce(s_->args(0, kCount)), Error); });
}

INSTANTIATE_TEST_SUITE_P(Executors, GpuCurrentDevice, testing::Bool(), [](const auto& byCopies) {
  return byCopies.param ? "ByCopies" : "ByKernels";
});

}  // namespace
}  // namespace tutti::tests
