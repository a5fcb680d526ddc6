// Memory: what is allocated, whose an address is, copies and fills with their order, and pools.

#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

#include "tests/emulation/tests/runtime_test.h"

namespace tutti::emulation {
namespace {

using cuda::launch;

class MemoryTest : public RuntimeTest {};

TEST_F(MemoryTest, IsCountedAndGivenBack) {
  size_t before = 0, during = 0, after = 0, total = 0;
  constexpr size_t kBytes = 16 << 20;
  ASSERT_CUDA(cudaMemGetInfo(&before, &total));
  void* memory = nullptr;
  ASSERT_CUDA(cudaMalloc(&memory, kBytes));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 256, 0u);
  ASSERT_CUDA(cudaMemGetInfo(&during, &total));
  EXPECT_LE(during, before - kBytes);
  EXPECT_CUDA(cudaFree(memory));
  ASSERT_CUDA(cudaMemGetInfo(&after, &total));
  EXPECT_EQ(after, before);
  EXPECT_EQ(cudaMalloc(&memory, total * 2), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(nullptr, 16), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, OnlyWhatBeginsThereIsFreedAndOnce) {
  char* const memory = allocate<char>(4096);
  int onStack = 0;
  EXPECT_CUDA(cudaFree(nullptr));
  EXPECT_EQ(cudaFree(memory + 256), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(&onStack), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFree(memory));
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
  int* const pinned = allocatePinned<int>(4);
  EXPECT_EQ(cudaFree(pinned), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFreeHost(pinned));
  EXPECT_EQ(cudaFreeHost(pinned), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, AddressesTellWhoseTheyAre) {
  const std::vector<char> pageable(4096);
  char *const device = allocate<char>(4096), *const pinned = allocatePinned<char>(4096);
  cudaPointerAttributes all;
  ASSERT_CUDA(cudaPointerGetAttributes(&all, device + 100));
  EXPECT_EQ(all.type, cudaMemoryTypeDevice);
  EXPECT_EQ(all.device, 0);
  EXPECT_EQ(all.devicePointer, device + 100);
  ASSERT_CUDA(cudaPointerGetAttributes(&all, pinned));
  EXPECT_EQ(all.type, cudaMemoryTypeHost);
  EXPECT_EQ(all.hostPointer, pinned);
  ASSERT_CUDA(cudaPointerGetAttributes(&all, pageable.data()));
  EXPECT_EQ(all.type, cudaMemoryTypeUnregistered);
  if (deviceCount() < 2) return;
  EXPECT_CUDA(cudaSetDevice(1));
  char* const other = allocate<char>(16);
  ASSERT_CUDA(cudaPointerGetAttributes(&all, other));
  EXPECT_EQ(all.device, 1);
}

TEST_F(MemoryTest, HostMemoryIsRegistered) {
  constexpr size_t kBytes = 8192;
  std::unique_ptr<char[]> memory(new char[kBytes]);
  void* address = nullptr;
  EXPECT_EQ(cudaHostGetDevicePointer(&address, memory.get(), 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostUnregister(memory.get()), cudaErrorHostMemoryNotRegistered);
  EXPECT_CUDA(cudaHostRegister(memory.get(), kBytes, cudaHostRegisterMapped));
  EXPECT_EQ(cudaHostRegister(memory.get(), kBytes, 0), cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_CUDA(cudaHostGetDevicePointer(&address, memory.get(), 0));
  cudaPointerAttributes all;
  EXPECT_CUDA(cudaPointerGetAttributes(&all, memory.get()));
  EXPECT_EQ(all.type, cudaMemoryTypeHost);
  std::memset(memory.get(), 0, kBytes);
  EXPECT_CUDA(launch(addTo, {}, static_cast<int*>(address), 1, 3));
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(memory[0], 3);
  EXPECT_CUDA(cudaHostUnregister(memory.get()));
  EXPECT_EQ(cudaHostRegister(nullptr, kBytes, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostRegister(memory.get(), 0, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostRegister(memory.get(), kBytes, 64), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostAlloc(&address, 16, 64), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, CopiesAreCheckedAgainstWhatIsThere) {
  char* const device = allocate<char>(4096);
  std::vector<char> host(8192);
  EXPECT_EQ(cudaMemcpy(device, host.data(), 4097, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device + 1, host.data(), 4096, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host.data(), device, 4096, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host.data(), host.data() + 4096, 16, cudaMemcpyDeviceToHost),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device, host.data(), 16, cudaMemcpyKind(7)),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaMemcpy(nullptr, host.data(), 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(device, 0, 4097), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(host.data(), 0, 16), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMemcpy(device, host.data(), 0, cudaMemcpyHostToDevice));
  EXPECT_CUDA(cudaMemcpy(device, host.data(), 4096, cudaMemcpyDefault));
  EXPECT_CUDA(cudaMemcpy(host.data(), device, 4096, cudaMemcpyDefault));
}

TEST_F(MemoryTest, CopiesGoEveryWay) {
  std::vector<int> from(1000), to(1000);
  std::iota(from.begin(), from.end(), 1);
  constexpr size_t kBytes = 1000 * sizeof(int);
  int *const one = allocate<int>(1000), *const other = allocate<int>(1000);
  int* const pinned = allocatePinned<int>(1000);
  EXPECT_CUDA(cudaMemcpy(one, from.data(), kBytes, cudaMemcpyHostToDevice));
  EXPECT_CUDA(cudaMemcpy(other, one, kBytes, cudaMemcpyDeviceToDevice));
  EXPECT_CUDA(cudaMemcpy(pinned, other, kBytes, cudaMemcpyDeviceToHost));
  EXPECT_CUDA(cudaMemcpy(to.data(), pinned, kBytes, cudaMemcpyHostToHost));
  EXPECT_EQ(to, from);
  if (deviceCount() < 2) return;
  EXPECT_CUDA(cudaSetDevice(1));
  int* const there = allocate<int>(1000);
  EXPECT_CUDA(cudaMemcpyPeer(there, 1, one, 0, kBytes));
  EXPECT_EQ(download(there, 1000), from);
  EXPECT_EQ(cudaMemcpyPeer(there, deviceCount(), one, 0, kBytes), cudaErrorInvalidDevice);
}

TEST_F(MemoryTest, RowsAreCopied) {
  constexpr size_t kPitch = 64, kWidth = 10, kHeight = 5;
  std::vector<char> from(kWidth * kHeight), to(kWidth * kHeight);
  std::iota(from.begin(), from.end(), char(1));
  char* const device = allocateZeros<char>(kPitch * kHeight);
  EXPECT_CUDA(
      cudaMemcpy2D(device, kPitch, from.data(), kWidth, kWidth, kHeight, cudaMemcpyHostToDevice));
  EXPECT_CUDA(
      cudaMemcpy2D(to.data(), kWidth, device, kPitch, kWidth, kHeight, cudaMemcpyDeviceToHost));
  EXPECT_EQ(to, from);
  EXPECT_CUDA(cudaMemset2D(device, kPitch, 9, kWidth, kHeight));
  const auto all = download(device, kPitch * kHeight);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], i % kPitch < kWidth ? 9 : 0) << i;
  EXPECT_EQ(cudaMemcpy2D(device, kWidth - 1, from.data(), kWidth, kWidth, kHeight,
                         cudaMemcpyHostToDevice),
            cudaErrorInvalidPitchValue);
}

TEST_F(MemoryTest, PageableMemoryIsTakenAtTheCall) {
  cudaStream_t const stream = makeStream();
  int* const device = allocateZeros<int>(1);
  int value = 5;
  {
    Gate gate(stream);
    EXPECT_CUDA(cudaMemcpyAsync(device, &value, sizeof value, cudaMemcpyHostToDevice, stream));
    value = 6;
  }
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(download(device, 1)[0], 5);
}

TEST_F(MemoryTest, PinnedMemoryIsTakenWhenItsTurnComes) {
  cudaStream_t const stream = makeStream();
  int* const device = allocateZeros<int>(1);
  int* const pinned = allocatePinned<int>(2);
  cudaEvent_t const event = makeEvent();
  {
    Gate gate(stream);
    EXPECT_CUDA(cudaMemcpyAsync(device, pinned, sizeof(int), cudaMemcpyHostToDevice, stream));
    EXPECT_CUDA(cudaMemcpyAsync(pinned + 1, device, sizeof(int), cudaMemcpyDeviceToHost, stream));
    EXPECT_CUDA(cudaEventRecord(event, stream));
    EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
    pinned[0] = 6;
  }
  EXPECT_CUDA(cudaEventSynchronize(event));
  EXPECT_EQ(pinned[1], 6);
}

TEST_F(MemoryTest, CopiesWithinADeviceAndFillsDoNotWait) {
  int *const one = allocateZeros<int>(1), *const other = allocateZeros<int>(1);
  Gate gate(nullptr);
  EXPECT_CUDA(cudaMemset(one, 1, sizeof(int)));
  EXPECT_CUDA(cudaMemcpy(other, one, sizeof(int), cudaMemcpyDeviceToDevice));
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  gate.open();
  EXPECT_EQ(download(other, 1)[0], 0x01010101);
}

uint64_t poolNumber(cudaMemPool_t pool, cudaMemPoolAttr which) {
  uint64_t value = 0;
  EXPECT_CUDA(cudaMemPoolGetAttribute(pool, which, &value));
  return value;
}

TEST_F(MemoryTest, IsAllocatedInTheOrderOfAStream) {
  cudaStream_t const stream = makeStream();
  cudaMemPool_t pool = nullptr;
  ASSERT_CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
  const uint64_t before = poolNumber(pool, cudaMemPoolAttrUsedMemCurrent);
  void* memory = nullptr;
  ASSERT_CUDA(cudaMallocAsync(&memory, 4096, stream));
  EXPECT_CUDA(cudaMemsetAsync(memory, 0, 4096, stream));
  EXPECT_CUDA(launch(addTo, {.stream = stream}, static_cast<int*>(memory), 1, 3));
  EXPECT_GE(poolNumber(pool, cudaMemPoolAttrUsedMemCurrent), before + 4096);
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(download(static_cast<int*>(memory), 1)[0], 3);
  EXPECT_CUDA(cudaFreeAsync(memory, stream));
  EXPECT_EQ(cudaFreeAsync(memory, stream), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(poolNumber(pool, cudaMemPoolAttrUsedMemCurrent), before);
}

TEST_F(MemoryTest, OfNoPoolIsFreedInTheOrderOfAStreamToo) {
  cudaStream_t const stream = makeStream();
  int* const memory = allocateZeros<int>(1024);
  int* const pinned = allocatePinned<int>(1);
  EXPECT_CUDA(launch(addTo, {.stream = stream}, memory, 1, 3));
  EXPECT_CUDA(cudaMemcpyAsync(pinned, memory, sizeof(int), cudaMemcpyDeviceToHost, stream));
  EXPECT_CUDA(cudaFreeAsync(memory, stream));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(*pinned, 3);
}

TEST_F(MemoryTest, AFreeWaitsForItsStream) {
  cudaStream_t const stream = makeStream();
  void* memory = nullptr;
  ASSERT_CUDA(cudaMallocAsync(&memory, 4096, stream));
  Gate gate(stream);
  EXPECT_CUDA(cudaMemsetAsync(memory, 0, 4096, stream));
  EXPECT_CUDA(launch(addTo, {.stream = stream}, static_cast<int*>(memory), 1, 3));
  EXPECT_CUDA(cudaFreeAsync(memory, stream));
  gate.open();
  EXPECT_CUDA(cudaStreamSynchronize(stream));
}

TEST_F(MemoryTest, PoolsKeepAsMuchAsTheirThreshold) {
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool = nullptr;
  ASSERT_CUDA(cudaMemPoolCreate(&pool, &props));
  cudaStream_t const stream = makeStream();
  uint64_t threshold = ~uint64_t(0), zero = 0;
  EXPECT_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  void* memory = nullptr;
  ASSERT_CUDA(cudaMallocFromPoolAsync(&memory, 1 << 20, pool, stream));
  EXPECT_CUDA(cudaFreeAsync(memory, stream));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(poolNumber(pool, cudaMemPoolAttrUsedMemCurrent), 0u);
  EXPECT_GE(poolNumber(pool, cudaMemPoolAttrReservedMemCurrent), uint64_t(1 << 20));
  EXPECT_GE(poolNumber(pool, cudaMemPoolAttrUsedMemHigh), uint64_t(1 << 20));
  EXPECT_CUDA(cudaMemPoolTrimTo(pool, 0));
  EXPECT_EQ(poolNumber(pool, cudaMemPoolAttrReservedMemCurrent), 0u);
  EXPECT_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero));
  EXPECT_EQ(poolNumber(pool, cudaMemPoolAttrUsedMemHigh), 0u);
  EXPECT_EQ(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &zero),
            cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMemPoolDestroy(pool));
  props.allocType = cudaMemAllocationTypeInvalid;
  EXPECT_EQ(cudaMemPoolCreate(&pool, &props), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace tutti::emulation
