// One-sided calls between GPUs of several processes. The test's process itself never calls CUDA.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "src/base/bytes.h"
#include "src/communicator/inspection.h"
#include "src/device/cuda/virtual_memory.h"
#include "tests/communicator/gpu/puts.h"
#include "tests/support/outcome.h"
#include "tests/support/rank_processes.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;
using Context = RankProcesses::Context;

Communicator join(const Context& context) {
  return context.join({.device = gpu(context.rank % deviceCount(DeviceKind::Cuda))});
}

int failures(const Context&) { return testing::Test::HasFailure() ? 1 : 0; }

// What cudaMalloc() gave is mapped, also beside the legacy default stream.
TEST(GpuOneSidedProcesses, PutStraightIntoEachOthersMemory) {
  RankProcesses ranks(3, [](const Context& context) {
    Communicator c = join(context);
    EXPECT_EQ(communicator::Inspection::addressableRanks(c), 3);
    {
      Stream stream(c.device());
      passAround(c, stream, true);
    }
    cudaSetDevice(c.device().index);
    const int next = (c.rank() + 1) % 3, before = (c.rank() + 2) % 3;
    Floats inbox(c.device(), 2 * kPutCount, 0), mine(c.device(), kPutCount, 3);
    // A part of an allocation.
    const Window window = c.window({inbox.data() + kPutCount, kPutCount});
    EXPECT_NE(window.address(next), nullptr);
    EXPECT_EQ(window.address(next), window.address(next));
    const StreamRef legacy = StreamRef::cuda(nullptr);
    waitFor(c, before, legacy);
    c.barrier();  // all wait
    Stream stream(c.device());
    c.put(all(mine, next, window), stream);
    stream.synchronize();
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    std::vector<float> got(2 * kPutCount);
    device::copyMemory(got.data(), inbox.data(), 4 * got.size());
    EXPECT_EQ(std::count(got.begin(), got.begin() + kPutCount, 0.0F), kPutCount);
    EXPECT_EQ(std::count(got.begin() + kPutCount, got.end(), 3.0F), kPutCount);
    c.barrier();
    return failures(context);
  });
  EXPECT_TRUE(ranks.allSucceed(60s));
}

// Of cuMem there are no handles: messages go there.
TEST(GpuOneSidedProcesses, PutByMessagesWhereMemoryHasNoHandle) {
  RankProcesses ranks(2, [](const Context& context) {
    Communicator c = join(context);
    const auto memory = device::VirtualMemory::create(c.device().index, 4 * kPutCount);
    Floats mine(c.device(), kPutCount, static_cast<float>(c.rank() + 1));
    const Window window = c.window({memory.data(), 4 * kPutCount});
    EXPECT_EQ(window.address(1 - c.rank()), nullptr);
    c.put(all(mine, 1 - c.rank(), window));
    waitFor(c, 1 - c.rank());
    std::vector<float> got(kPutCount);
    device::copyMemory(got.data(), memory.data(), 4 * kPutCount);
    EXPECT_EQ(got, std::vector<float>(kPutCount, static_cast<float>(2 - c.rank())));
    c.barrier();
    return failures(context);
  });
  EXPECT_TRUE(ranks.allSucceed(60s));
}

// What a rank says of its memory is not believed.
TEST(GpuOneSidedProcesses, OpenNoMoreThanThereIs) {
  RankProcesses ranks(2, [](const Context& context) {
    Communicator c = join(context);
    Floats mine(c.device(), 256, static_cast<float>(c.rank() + 1));
    const base::Bytes exported = device::exportMemory(mine.data() + 128, c.device().index);
    std::vector<std::byte> both(2 * exported.size());
    c.allGather({.send = exported.data(),
                 .recv = both.data(),
                 .count = exported.size(),
                 .type = DataType::UInt8});
    const auto theirs = both.begin() + (1 - c.rank()) * static_cast<long>(exported.size());
    const base::Bytes other(theirs, theirs + static_cast<long>(exported.size()));
    const int device = c.device().index;
    {
      const auto opened = device::openMemory(other, 512, device);
      float value = 0;
      device::copyMemory(&value, opened.get(), sizeof value);
      EXPECT_EQ(value, static_cast<float>(2 - c.rank()));
    }
    expectError(outcomeOf([&] { device::openMemory(other, 513, device); }), ErrorCode::Refused,
                "513 bytes at 512 of memory that has 1024");
    expectError(outcomeOf([&] { device::openMemory({}, 1, device); }), ErrorCode::Refused,
                "offset in the memory");
    base::Bytes wrong = other;
    std::fill(wrong.begin() + 16, wrong.end(), std::byte{});  // the handle, behind two numbers
    const Outcome unknown = outcomeOf([&] { device::openMemory(wrong, 1, device); });
    EXPECT_NE(unknown.text.find("cudaIpcOpenMemHandle"), std::string::npos) << unknown.text;
    c.barrier();
    return failures(context);
  });
  EXPECT_TRUE(ranks.allSucceed(60s));
}

}  // namespace
}  // namespace tutti::tests
