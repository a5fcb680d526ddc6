// Devices, versions, errors, function attributes, occupancy, and what launches are refused.

#include <cstring>
#include <set>
#include <string>
#include <thread>

#include "tests/emulation/tests/runtime_test.h"

namespace tutti::emulation {
namespace {

using cuda::launch;

class DeviceTest : public RuntimeTest {};

TEST_F(DeviceTest, EachThreadHasItsOwn) {
  if (deviceCount() < 2) GTEST_SKIP() << "needs two devices";
  EXPECT_CUDA(cudaSetDevice(1));
  int there = -1;
  std::thread([&] { EXPECT_CUDA(cudaGetDevice(&there)); }).join();
  int here = -1;
  EXPECT_CUDA(cudaGetDevice(&here));
  EXPECT_EQ(here, 1);
  EXPECT_EQ(there, 0);
}

TEST_F(DeviceTest, ThereAreNoOthers) {
  int value = 0;
  cudaDeviceProp properties;
  for (const int device : {-1, deviceCount()}) {
    EXPECT_EQ(cudaSetDevice(device), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, device), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaGetDeviceProperties(&properties, device), cudaErrorInvalidDevice);
  }
  EXPECT_CUDA(cudaGetDevice(&value));
  EXPECT_EQ(value, 0);
}

TEST_F(DeviceTest, AttributesAgreeWithProperties) {
  cudaDeviceProp all;
  ASSERT_CUDA(cudaGetDeviceProperties(&all, 0));
  const std::pair<cudaDeviceAttr, int> wanted[] = {
      {cudaDevAttrMultiProcessorCount, all.multiProcessorCount},
      {cudaDevAttrComputeCapabilityMajor, all.major},
      {cudaDevAttrComputeCapabilityMinor, all.minor},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, int(all.sharedMemPerBlockOptin)},
      {cudaDevAttrMaxThreadsPerMultiProcessor, all.maxThreadsPerMultiProcessor},
      {cudaDevAttrPciBusId, all.pciBusID},
      {cudaDevAttrCooperativeLaunch, all.cooperativeLaunch},
      {cudaDevAttrMemoryPoolsSupported, all.memoryPoolsSupported},
      {cudaDevAttrGPUDirectRDMAFlushWritesOptions, int(all.gpuDirectRDMAFlushWritesOptions)},
      {cudaDevAttrGPUDirectRDMAWritesOrdering, all.gpuDirectRDMAWritesOrdering},
      {cudaDevAttrWarpSize, 32}};
  for (const auto& [attribute, value] : wanted) {
    int has = -1;
    EXPECT_CUDA(cudaDeviceGetAttribute(&has, attribute, 0));
    EXPECT_EQ(has, value) << attribute;
  }
  int has = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&has, cudaDeviceAttr(0), 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceGetAttribute(&has, cudaDeviceAttr(100000), 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceGetAttribute(nullptr, cudaDevAttrWarpSize, 0), cudaErrorInvalidValue);
}

TEST_F(DeviceTest, AreToldApart) {
  std::set<std::string> buses, uuids;
  for (int i = 0; i < deviceCount(); ++i) {
    char bus[16] = {};
    cudaDeviceProp all;
    ASSERT_CUDA(cudaDeviceGetPCIBusId(bus, sizeof bus, i));
    ASSERT_CUDA(cudaGetDeviceProperties(&all, i));
    buses.insert(bus);
    uuids.insert(std::string(all.uuid.bytes, sizeof all.uuid.bytes));
    int index = -1;
    EXPECT_CUDA(cudaDeviceGetByPCIBusId(&index, bus));
    EXPECT_EQ(index, i) << bus;
  }
  EXPECT_EQ(int(buses.size()), deviceCount());
  EXPECT_EQ(int(uuids.size()), deviceCount());
  char bus[4];
  EXPECT_EQ(cudaDeviceGetPCIBusId(bus, sizeof bus, 0), cudaErrorInvalidValue);
}

TEST_F(DeviceTest, VersionsAreOfTheHeaders) {
  int runtime = 0, driverVersion = 0;
  EXPECT_CUDA(cudaRuntimeGetVersion(&runtime));
  EXPECT_CUDA(cudaDriverGetVersion(&driverVersion));
  EXPECT_EQ(runtime, CUDART_VERSION);
  EXPECT_GE(driverVersion, runtime);
}

TEST_F(DeviceTest, PeerAccessIsEnabledOnce) {
  int can = -1;
  EXPECT_CUDA(cudaDeviceCanAccessPeer(&can, 0, 0));
  EXPECT_EQ(can, 0);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessUnsupported);
  EXPECT_EQ(cudaDeviceDisablePeerAccess(0), cudaErrorPeerAccessNotEnabled);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(deviceCount(), 0), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceGetP2PAttribute(&can, cudaDevP2PAttrAccessSupported, 0, 0),
            cudaErrorInvalidDevice);
  if (deviceCount() < 2) return;
  EXPECT_CUDA(cudaDeviceCanAccessPeer(&can, 0, 1));
  if (can == 0) return;
  EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 1), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaDeviceEnablePeerAccess(1, 0));
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_CUDA(cudaDeviceDisablePeerAccess(1));
}

TEST_F(DeviceTest, TheLastErrorIsKeptUntilItIsTaken) {
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  int device = 0;
  EXPECT_CUDA(cudaGetDevice(&device));
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  cudaError_t elsewhere = cudaErrorUnknown;
  std::thread([&] { elsewhere = cudaGetLastError(); }).join();
  EXPECT_CUDA(elsewhere);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_CUDA(cudaGetLastError());
}

TEST_F(DeviceTest, ErrorsHaveNames) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorName(cudaError_t(12345)), "unrecognized error code");
}

struct BadLaunch {
  const char* name;
  cuda::LaunchConfig config;
  cudaError_t error;
};

/// CUDA has templates of these names, too.
cudaError_t plainLaunch(const void* kernel, dim3 grid, dim3 block, void** arguments,
                        size_t sharedBytes, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, sharedBytes, stream);
}
cudaError_t plainCooperativeLaunch(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                   size_t sharedBytes, cudaStream_t stream) {
  return cudaLaunchCooperativeKernel(kernel, grid, block, arguments, sharedBytes, stream);
}

TEST_F(DeviceTest, BadLaunchesAreRefused) {
  int* const data = allocateZeros<int>(1);
  const BadLaunch all[] = {
      {"no grid", {.grid = {0}}, cudaErrorInvalidValue},
      {"no block", {.block = {0}}, cudaErrorInvalidValue},
      {"threads", {.block = {1025}}, cudaErrorInvalidValue},
      {"thread product", {.block = {64, 32}}, cudaErrorInvalidValue},
      {"block z", {.block = {1, 1, 65}}, cudaErrorInvalidValue},
      {"grid y", {.grid = {1, 65536}}, cudaErrorInvalidValue},
      {"shared", {.dynamicSharedBytes = (48 << 10) + 1}, cudaErrorInvalidValue},
      {"cluster", {.grid = {3}, .cluster = {2}}, cudaErrorInvalidClusterSize},
      {"big cluster", {.grid = {16}, .cluster = {16}}, cudaErrorInvalidClusterSize},
      {"cooperative",
       {.grid = {1 << 20}, .block = {1024}, .cooperative = true},
       cudaErrorCooperativeLaunchTooLarge},
      {"stream", {.stream = cudaStream_t(data)}, cudaErrorInvalidResourceHandle}};
  for (const BadLaunch& each : all) {
    if (std::strcmp(each.name, "stream") == 0) continue;  // NVIDIA's does not survive it
    EXPECT_EQ(launch(addTo, each.config, data, 1, 1), each.error) << each.name;
    EXPECT_EQ(cudaGetLastError(), each.error) << each.name;
  }
  EXPECT_CUDA(launch(addTo, {}, data, 1, 0));  // the emulation knows kernels that were launched
  int *to = data, count = 1, amount = 1;
  void* arguments[] = {&to, &count, &amount};
  const void* const kernel = cuda::addressOf(addTo);
  for (const BadLaunch& each : all) {
    const cuda::LaunchConfig& config = each.config;
    if (config.stream != nullptr || config.cluster.x > 1) continue;
    const auto how = config.cooperative ? &plainCooperativeLaunch : &plainLaunch;
    EXPECT_EQ(how(kernel, config.grid, config.block, arguments, config.dynamicSharedBytes, nullptr),
              each.error)
        << each.name << ", without attributes";
    EXPECT_EQ(cudaGetLastError(), each.error) << each.name << ", without attributes";
  }
  EXPECT_CUDA(launch(addTo, {}, data, 1, 1));
  EXPECT_EQ(download(data, 1)[0], 1);
}

TEST_F(DeviceTest, OtherDevicesStreamsRunNoKernels) {
  if (deviceCount() < 2) GTEST_SKIP() << "needs two devices";
  cudaStream_t const stream = makeStream();
  int* const data = allocateZeros<int>(1);
  EXPECT_CUDA(cudaSetDevice(1));
  EXPECT_EQ(launch(addTo, {.stream = stream}, data, 1, 1), cudaErrorInvalidResourceHandle);
  int device = -1;
  EXPECT_CUDA(cudaStreamGetDevice(stream, &device));
  EXPECT_EQ(device, 0);
}

TEST_F(DeviceTest, DynamicSharedMemoryIsRaised) {
  int* const data = allocateZeros<int>(1);
  const auto* const kernel = reinterpret_cast<const void*>(&doubleAndAdd);
  const size_t bytes = 100 << 10;
  EXPECT_EQ(launch(doubleAndAdd, {.dynamicSharedBytes = bytes}, data, 1, 1), cudaErrorInvalidValue);
  const auto which = cudaFuncAttributeMaxDynamicSharedMemorySize;
  EXPECT_EQ(cudaFuncSetAttribute(kernel, which, 1 << 20), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(kernel, which, -1), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFuncSetAttribute(kernel, which, bytes));
  EXPECT_CUDA(launch(doubleAndAdd, {.dynamicSharedBytes = bytes}, data, 1, 1));
  cudaFuncAttributes attributes;
  EXPECT_CUDA(cudaFuncGetAttributes(&attributes, kernel));
  EXPECT_EQ(attributes.maxDynamicSharedSizeBytes, int(bytes));
  EXPECT_EQ(attributes.maxThreadsPerBlock, 1024);
  EXPECT_EQ(cudaFuncGetAttributes(&attributes, nullptr), cudaErrorInvalidDeviceFunction);
  EXPECT_CUDA(cudaFuncSetAttribute(kernel, which, 48 << 10));
}

TEST_F(DeviceTest, OccupancyIsWhatCooperativeLaunchesGet) {
  const auto* const kernel = reinterpret_cast<const void*>(&addTo);
  int perProcessor = 0, processors = 0;
  ASSERT_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  ASSERT_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&perProcessor, kernel, 1024, 0));
  EXPECT_EQ(perProcessor, 2);
  int* const data = allocateZeros<int>(1);
  const unsigned all = unsigned(perProcessor * processors);
  EXPECT_CUDA(launch(addTo, {.grid = {all}, .block = {1024}, .cooperative = true}, data, 1, 1));
  EXPECT_EQ(launch(addTo, {.grid = {all + 1}, .block = {1024}, .cooperative = true}, data, 1, 1),
            cudaErrorCooperativeLaunchTooLarge);
  ASSERT_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&perProcessor, kernel, 32, 48 << 10));
  EXPECT_EQ(perProcessor, 4);  // of 228 KiB
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(nullptr, kernel, 32, 0),
            cudaErrorInvalidValue);
}

TEST_F(DeviceTest, LimitsAreKept) {
  size_t value = 0;
  EXPECT_CUDA(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 2 << 20));
  EXPECT_CUDA(cudaDeviceGetLimit(&value, cudaLimitPrintfFifoSize));
  EXPECT_GE(value, size_t(2 << 20));
  EXPECT_EQ(cudaDeviceGetLimit(&value, cudaLimit(99)), cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceSetLimit(cudaLimit(99), 1), cudaErrorInvalidValue);
}

TEST_F(DeviceTest, WritesOfNetworksAreFlushed) {
  int options = 0;
  EXPECT_CUDA(cudaDeviceGetAttribute(&options, cudaDevAttrGPUDirectRDMAFlushWritesOptions, 0));
  if ((options & cudaFlushGPUDirectRDMAWritesOptionHost) == 0)
    GTEST_SKIP() << "the device does not flush when it is asked to";
  const auto device = cudaFlushGPUDirectRDMAWritesTargetCurrentDevice;
  EXPECT_CUDA(cudaDeviceFlushGPUDirectRDMAWrites(device, cudaFlushGPUDirectRDMAWritesToOwner));
  EXPECT_EQ(cudaDeviceFlushGPUDirectRDMAWrites(device, cudaFlushGPUDirectRDMAWritesScope(7)),
            cudaErrorInvalidValue);
}

}  // namespace
}  // namespace tutti::emulation
