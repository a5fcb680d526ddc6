// Memory of GPUs and pinned memory, whose memory an address is, and memory that other GPUs and
// other mappings reach.

#include <fcntl.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <tutti/cuda/launch.h>
#include "src/device/cuda.h"
#include "src/device/cuda/virtual_memory.h"
#include "tests/device/access.h"
#include "tests/device/cuda_test.h"
#include "tests/emulation/runtime_device.cuh"

namespace tutti::tests {
namespace {

using device::MemoryPlace;
using device::placeOf;
using device::VirtualMemory;
using Kind = MemoryPlace::Kind;

class CudaMemory : public CudaTest {};
class CudaVirtualMemory : public CudaTest {};

size_t freeBytes(int device) {
  size_t free = 0, all = 0;
  EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
  EXPECT_EQ(cudaMemGetInfo(&free, &all), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  return free;
}

TEST_F(CudaMemory, IsOnItsDeviceAndGoesWithItsOwner) {
  for (int device = 0; device < devices(); ++device) {
    const size_t before = freeBytes(device);
    {
      Memory memory = allocateOn(gpu(device), 64 << 20);  // more than a block that CUDA keeps
      EXPECT_EQ(memory.bytes(), size_t{64} << 20);
      EXPECT_LT(freeBytes(device), before);
      EXPECT_EQ(placeOf(memory.data()), (MemoryPlace{Kind::Cuda, device}));
      EXPECT_EQ(placeOf(memory.as<char>() + memory.bytes() - 1), (MemoryPlace{Kind::Cuda, device}));
    }
    EXPECT_EQ(freeBytes(device), before);
  }
}

TEST_F(CudaMemory, OfNoBytesIsNull) {
  EXPECT_FALSE(allocateOn(someGpu(1), 0));
  EXPECT_FALSE(allocatePinned(0));
}

TEST_F(CudaMemory, OfTheHostIsNotAllocatedHere) {
  expectError(outcomeOf([] { allocateOn({}, 8); }), ErrorCode::InvalidArgument,
              "allocateOn: host:0 is no GPU");
}

TEST_F(CudaMemory, ThatIsNotThereIsSaidWithItsSize) {
  const std::string name = toString(someGpu(2)), other = toString(someGpu(3));
  const Outcome device = outcomeOf([] { allocateOn(someGpu(2), size_t{1} << 40); });
  expectError(device, ErrorCode::OutOfMemory,
              "cudaMalloc failed on " + name +
                  ": cudaErrorMemoryAllocation (out of memory): 1099511627776 bytes were asked "
                  "for, and " +
                  name + " has ");
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  const Outcome shared =
      outcomeOf([] { VirtualMemory::create(someGpu(3).index, size_t{1} << 40); });
  expectError(shared, ErrorCode::OutOfMemory, "cuMemCreate failed on " + other);
  expectError(shared, ErrorCode::OutOfMemory, "1099511627776 bytes were asked for");
  EXPECT_TRUE(allocateOn(someGpu(2), 8)) << "what there is can still be had";
}

TEST_F(CudaMemory, PinnedIsReachedByKernelsOfAllDevices) {
  Memory memory = allocatePinned(sizeof(int));
  *memory.as<int>() = 1;
  for (int device = 0; device < devices(); ++device) {
    Stream stream(gpu(device));
    ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
    ASSERT_EQ(cuda::launch(emulation::addTo, {.stream = StreamRef(stream).cuda()}, memory.as<int>(),
                           1, 10),
              cudaSuccess);
    stream.synchronize();
  }
  EXPECT_EQ(*memory.as<int>(), 1 + 10 * devices());
  EXPECT_EQ(placeOf(memory.data()).kind, Kind::Pinned);
}

TEST_F(CudaMemory, OfTheHostIsToldFromPinned) {
  std::vector<char> ordinary(100);
  EXPECT_EQ(placeOf(ordinary.data()), MemoryPlace{});
  EXPECT_EQ(placeOf(nullptr), MemoryPlace{});
  ASSERT_EQ(cudaHostRegister(ordinary.data(), ordinary.size(), cudaHostRegisterDefault),
            cudaSuccess);
  EXPECT_EQ(placeOf(ordinary.data()).kind, Kind::Pinned);
  ASSERT_EQ(cudaHostUnregister(ordinary.data()), cudaSuccess);
  EXPECT_EQ(placeOf(ordinary.data()), MemoryPlace{});
  EXPECT_EQ(describe(MemoryPlace{Kind::Cuda, 2}), "memory of cuda:2");
  EXPECT_EQ(describe(MemoryPlace{Kind::Managed}), "managed memory of CUDA");
}

TEST_F(CudaMemory, IsCopiedBetweenTheHostAndDevices) {
  Memory memory = allocateOn(someGpu(3), 8);
  const uint64_t sent = 0x0123456789abcdef;
  uint64_t received = 0;
  device::copyMemory(memory.data(), &sent, sizeof sent);
  device::copyMemory(&received, memory.data(), sizeof received);
  EXPECT_EQ(received, sent);
}

// Copies to pinned memory return before they are done, where nobody waits.
TEST_F(CudaMemory, IsCopiedToPinnedMemoryWhenTheCallReturns) {
  constexpr size_t kBytes = 32 << 20;
  Memory memory = allocateOn(someGpu(1), kBytes), pinned = allocatePinned(kBytes);
  for (const int value : {7, 9}) {
    ASSERT_EQ(cudaMemset(memory.data(), value, kBytes), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    device::copyMemory(pinned.data(), memory.data(), kBytes);
    EXPECT_EQ(pinned.as<char>()[kBytes - 1], value);
  }
}

/// What a stream stands before until somebody opens it.
struct Gate {
  std::atomic<bool> isOpen{false};
  static void await(void* gate) {
    while (!static_cast<Gate*>(gate)->isOpen)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

TEST_F(CudaMemory, IsCopiedBehindTheLegacyStreamAndNoOther) {
  Memory memory = allocateOn(someGpu(0), 8);
  const uint64_t sent = 7;
  Gate mine;
  ASSERT_EQ(cudaLaunchHostFunc(cudaStreamPerThread, Gate::await, &mine), cudaSuccess);
  copy({memory.data(), &sent, sizeof sent});
  mine.isOpen = true;
  ASSERT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaSuccess);
  Gate legacy;
  std::atomic<bool> isCopied{false};
  ASSERT_EQ(cudaLaunchHostFunc(cudaStreamLegacy, Gate::await, &legacy), cudaSuccess);
  std::thread copying([&] {
    copy({memory.data(), &sent, sizeof sent});
    isCopied = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(isCopied);
  legacy.isOpen = true;
  copying.join();
}

// From what the memory has when the stream comes to it.
TEST_F(CudaMemory, IsCopiedInTheStreamsOrder) {
  Stream stream(someGpu(1));
  Memory memory = allocateOn(someGpu(1), sizeof(int)), pinned = allocatePinned(2 * sizeof(int));
  int* const from = pinned.as<int>();
  int* const to = from + 1;
  *from = 1;
  CudaGate gate(stream);
  copy({memory.data(), from, sizeof(int)}, stream);
  copy({to, memory.data(), sizeof(int)}, stream);
  *from = 2;
  gate.open();
  stream.synchronize();
  EXPECT_EQ(*to, 2);
  *from = 3;
  copy({memory.data(), from, sizeof(int)});
  copy({to, memory.data(), sizeof(int)});
  EXPECT_EQ(*to, 3) << "without a stream they are done when the calls return";
}

TEST_F(CudaVirtualMemory, IsWholeUnitsOfItsDevice) {
  const int device = someGpu(1).index;
  const size_t unit = VirtualMemory::granularity(device);
  EXPECT_GT(unit, 0u);
  const VirtualMemory memory = VirtualMemory::create(device, unit + 1);
  EXPECT_EQ(memory.bytes(), 2 * unit);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % unit, 0u);
  EXPECT_EQ(placeOf(memory.data()), (MemoryPlace{Kind::Cuda, device}));
  expectError(outcomeOf([&] { VirtualMemory::create(device, 0); }), ErrorCode::InvalidArgument,
              "no bytes");
}

// The descriptor alone keeps the memory; whoever maps it has his own address for it.
TEST_F(CudaVirtualMemory, IsTheSameMemoryWhereItIsOpened) {
  VirtualMemory memory = VirtualMemory::create(0, 64);
  const base::FileDescriptor exported = memory.exported();
  ASSERT_TRUE(exported);
  EXPECT_TRUE(::fcntl(exported.get(), F_GETFD) & FD_CLOEXEC);
  VirtualMemory opened = VirtualMemory::open(exported, someGpu(2).index, memory.bytes());
  EXPECT_NE(opened.data(), memory.data());
  const int sent = 42;
  int received = 0;
  device::copyMemory(memory.data(), &sent, sizeof sent);
  memory = {};
  device::copyMemory(&received, opened.data(), sizeof received);
  EXPECT_EQ(received, 42);
}

TEST_F(CudaVirtualMemory, IsTouchedByPeersThatMay) {
  if (devices() < 3) GTEST_SKIP() << "three GPUs are needed";
  const int last = devices() - 1;
  std::vector<int> peers(size_t(last - 1));
  std::iota(peers.begin(), peers.end(), 1);
  VirtualMemory memory = VirtualMemory::create(0, 64, peers);
  ASSERT_EQ(cudaMemset(memory.data(), 0, 64), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  memory.allow(last);
  for (int device = 0; device < devices(); ++device) {
    Stream stream(gpu(device));
    ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
    ASSERT_EQ(cuda::launch(emulation::addTo, {.stream = StreamRef(stream).cuda()},
                           static_cast<int*>(memory.data()), 1, 1),
              cudaSuccess);
    stream.synchronize();
    EXPECT_TRUE(mayTouch(device, memory.data())) << device;
  }
  int sum = 0;
  device::copyMemory(&sum, memory.data(), sizeof sum);
  EXPECT_EQ(sum, devices());
}

TEST_F(CudaVirtualMemory, IsGivenBackOnce) {
  const int device = someGpu(2).index;
  const size_t before = freeBytes(device);
  {
    VirtualMemory memory = VirtualMemory::create(device, 64);
    VirtualMemory moved = std::move(memory);
    EXPECT_EQ(memory.data(), nullptr);
    moved = VirtualMemory::create(device, 64);
    VirtualMemory& same = moved;
    moved = std::move(same);
    EXPECT_NE(moved.data(), nullptr);
    EXPECT_LT(freeBytes(device), before);
  }
  EXPECT_EQ(freeBytes(device), before);
}

TEST_F(CudaVirtualMemory, OfAWrongDescriptorIsAnError) {
  const base::FileDescriptor wrong(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Outcome outcome = outcomeOf([&] { VirtualMemory::open(wrong, 0, 2 << 20); });
  expectError(outcome, ErrorCode::Cuda, "cuMemImportFromShareableHandle");
}

}  // namespace
}  // namespace tutti::tests
