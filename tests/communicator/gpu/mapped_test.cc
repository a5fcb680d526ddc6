// Calls on GPUs whose kernels address the other ranks' buffers: memory that CUDA joins only where
// it is told so; and when a buffer is its caller's again after a failure.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <span>
#include <thread>
#include <vector>

#include "src/device/cuda/driver.h"
#include "src/device/cuda/virtual_memory.h"
#include "tests/communicator/gpu/ranks.h"
#include "tests/support/local_ranks.h"

namespace tutti::tests {
namespace {

using namespace std::chrono_literals;

constexpr size_t kCount = 100'000;  // floats, of which plans map buffers
constexpr size_t kBytes = 4 * kCount;

class GpuMapped : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (devices() < 2) GTEST_SKIP() << "two GPUs are needed";
  }
  /// Sums in place, of ranks 0 and 1, which are on devices 0 and 1.
  static void expectSums(const std::vector<void*>& buffers) {
    Setting s(2, 2, 1);
    for (int r = 0; r < 2; ++r) {
      const std::vector<float> mine(kCount, static_cast<float>(r + 1));
      device::copyMemory(buffers[r], mine.data(), kBytes);
    }
    runRanks(s.ranks, [&](Communicator& c) {
      void* const mine = buffers[c.rank()];
      c.allReduce({.send = mine, .recv = mine, .count = kCount, .type = DataType::Float32});
    });
    std::vector<float> sums(kCount);
    for (void* const buffer : buffers) {
      device::copyMemory(sums.data(), buffer, kBytes);
      EXPECT_EQ(sums, std::vector<float>(kCount, 3));
    }
  }
};

// A kernel of a device that has no access would end every program on it.
TEST_F(GpuMapped, MemoryOfPoolsIsOpenedToTheOtherDevice) {
  std::vector<void*> buffers(2);
  std::vector<cudaMemPool_t> pools(2);
  for (int device = 0; device < 2; ++device) {
    const device::OnDevice on(device);
    const cudaMemPoolProps properties{.allocType = cudaMemAllocationTypePinned,
                                      .location = {cudaMemLocationTypeDevice, device}};
    ASSERT_EQ(cudaMemPoolCreate(&pools[device], &properties), cudaSuccess);
    ASSERT_EQ(cudaMallocFromPoolAsync(&buffers[device], kBytes, pools[device], nullptr),
              cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  }
  expectSums(buffers);
  for (int device = 0; device < 2; ++device) {
    cudaMemLocation other{cudaMemLocationTypeDevice, 1 - device};
    cudaMemAccessFlags access = cudaMemAccessFlagsProtNone;
    EXPECT_EQ(cudaMemPoolGetAccess(&access, pools[device], &other), cudaSuccess);
    EXPECT_EQ(access, cudaMemAccessFlagsProtReadWrite);
    const device::OnDevice on(device);
    EXPECT_EQ(cudaFreeAsync(buffers[device], nullptr), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    EXPECT_EQ(cudaMemPoolDestroy(pools[device]), cudaSuccess);
  }
}

// A buffer over two mappings that lie beside each other, each with an access of its own.
TEST_F(GpuMapped, MappingsAreOpenedToTheOtherDevice) {
#define TUTTI_FUNCTION(name) \
  const auto name = device::driverFunction<decltype(::name)>(#name, 10020)
  TUTTI_FUNCTION(cuMemAddressReserve);
  TUTTI_FUNCTION(cuMemAddressFree);
  TUTTI_FUNCTION(cuMemCreate);
  TUTTI_FUNCTION(cuMemRelease);
  TUTTI_FUNCTION(cuMemMap);
  TUTTI_FUNCTION(cuMemUnmap);
  TUTTI_FUNCTION(cuMemSetAccess);
  TUTTI_FUNCTION(cuMemGetAccess);
#undef TUTTI_FUNCTION
  const size_t unit = device::VirtualMemory::granularity(0);
  std::vector<void*> buffers;
  std::vector<CUdeviceptr> reserved(2);
  for (int device = 0; device < 2; ++device) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    ASSERT_EQ(cuMemAddressReserve(&reserved[device], 2 * unit, 0, 0, 0), CUDA_SUCCESS);
    for (const CUdeviceptr at : {reserved[device], reserved[device] + unit}) {
      CUmemGenericAllocationHandle physical = 0;
      ASSERT_EQ(cuMemCreate(&physical, unit, &properties, 0), CUDA_SUCCESS);
      ASSERT_EQ(cuMemMap(at, unit, 0, physical, 0), CUDA_SUCCESS);
      ASSERT_EQ(cuMemRelease(physical), CUDA_SUCCESS);
      const CUmemAccessDesc own{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
      ASSERT_EQ(cuMemSetAccess(at, unit, &own, 1), CUDA_SUCCESS);
    }
    buffers.push_back(reinterpret_cast<void*>(reserved[device] + unit - kBytes / 2));
  }
  expectSums(buffers);
  for (int device = 0; device < 2; ++device) {
    const CUmemLocation other{CU_MEM_LOCATION_TYPE_DEVICE, 1 - device};
    for (const CUdeviceptr at : {reserved[device], reserved[device] + unit}) {
      unsigned long long access = 0;
      EXPECT_EQ(cuMemGetAccess(&access, &other, at), CUDA_SUCCESS);
      EXPECT_EQ(access, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
      EXPECT_EQ(cuMemUnmap(at, unit), CUDA_SUCCESS);
    }
    EXPECT_EQ(cuMemAddressFree(reserved[device], 2 * unit), CUDA_SUCCESS);
  }
}

// Rank 1's kernel, which is to run when rank 0 has given up, knows where rank 0's buffer was.
TEST_F(GpuMapped, ACallThatFailsHasItsBufferBackThoughAPeersLaunchHasNotBegun) {
  Setting s(2, 2, kCount);
  CudaGate gate(s.streams[1]);
  s.ranks[1].allReduce(s.args(1, kCount), s.streams[1]);
  Outcome outcome;
  std::thread caller(
      [&] { outcome = outcomeOf([&] { s.ranks[0].allReduce(s.args(0, kCount)); }); });
  std::this_thread::sleep_for(100ms);
  s.ranks[0].abort();
  caller.join();
  expectError(outcome, ErrorCode::Aborted, "rank 0");
  s.values[0].put(7);
  gate.open();
  s.streams[1].synchronize();
  EXPECT_TRUE(s.values[0].are(7)) << "rank 1 has written there";
}

}  // namespace
}  // namespace tutti::tests
