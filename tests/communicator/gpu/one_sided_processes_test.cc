// One-sided calls between GPUs of several processes. The test's process itself never calls CUDA.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tests/communicator/gpu/puts.h"
#include "tests/support/rank_processes.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

// Other processes' GPU memory is reached by messages, also while the legacy default stream waits.
TEST(GpuOneSidedProcesses, PutAlsoBesideTheDefaultStream) {
  RankProcesses ranks(2, [](const RankProcesses::Context& context) {
    Communicator c = context.join({.device = gpu(context.rank % deviceCount(DeviceKind::Cuda))});
    {
      Stream stream(c.device());
      passAround(c, stream, false);
    }
    cudaSetDevice(c.device().index);
    Floats inbox(c.device(), kPutCount, 0), mine(c.device(), kPutCount, 3);
    const Window window = c.window(inbox.data(), 4 * kPutCount);
    const StreamRef legacy = StreamRef::cuda(nullptr);
    waitFor(c, 1 - c.rank(), legacy);
    c.barrier();  // both wait
    Stream stream(c.device());
    c.put(all(mine, 1 - c.rank(), window), stream);
    stream.synchronize();
    if (cudaStreamSynchronize(nullptr) != cudaSuccess) return 1;
    if (!inbox.are(3)) return 2;
    c.barrier();
    return testing::Test::HasFailure() ? 3 : 0;
  });
  EXPECT_TRUE(ranks.allSucceed(60s));
}

}  // namespace
}  // namespace tutti::tests
