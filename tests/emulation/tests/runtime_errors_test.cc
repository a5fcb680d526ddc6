// What only the stand-in tells: uses of memory that a GPU would perhaps survive, hangs for want of
// room, and faults that a test asks for. Each case is a process of its own.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/failing_call.h"
#include "tests/emulation/runtime/launched_kernels.h"
#include "tests/emulation/tests/runtime_test.h"

namespace tutti::emulation {
namespace {

using cuda::launch;

// A sanitizer reports a fault in its own words.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kSeesOverruns = true, kIsSanitized = true;
#elif defined(__SANITIZE_THREAD__)
constexpr bool kSeesOverruns = false, kIsSanitized = true;
#else
constexpr bool kSeesOverruns = false, kIsSanitized = false;
#endif

class RuntimeErrors : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    setenv("TUTTI_EMULATION_TIMEOUT", "1", 1);
  }
};

void synchronize() { EXPECT_CUDA(cudaDeviceSynchronize()); }

/// The process ends with a report: the emulation's, or a sanitizer's of the same fault.
template <class Body>
void expectFault(Body body, const char* text) {
  const auto isFault = [](int status) { return !WIFEXITED(status) || WEXITSTATUS(status) != 0; };
  const std::string all = std::string(text) + "|SEGV";
  EXPECT_EXIT((body(), synchronize(), _exit(0)), isFault, kIsSanitized ? all : text);
}

TEST_F(RuntimeErrors, WhatIsFreedFaults) {
  expectFault(
      [] {
        int* const data = allocateZeros<int>(1);
        cudaFree(data);
        launch(addTo, {}, data, 1, 1);
      },
      "memory that was freed");
  expectFault(
      [] {
        void* data = nullptr;
        cudaMallocAsync(&data, 4096, nullptr);
        cudaFreeAsync(data, nullptr);
        launch(addTo, {}, static_cast<int*>(data), 1, 1);
      },
      "memory that was freed");
}

TEST_F(RuntimeErrors, WhatIsBeyondFaults) {
  expectFault([] { launch(addTo, {}, allocateZeros<int>(1024) + 1024, 1, 1); },
              "from an allocation of 4096");
  expectFault([] { launch(addTo, {}, allocateZeros<int>(1024) - 1, 1, 1); },
              "from an allocation of 4096");
  if (kSeesOverruns)
    expectFault([] { launch(addTo, {}, allocateZeros<int>(3) + 3, 1, 1); }, "use-after-poison");
}

TEST_F(RuntimeErrors, WhatNobodyMayTouchFaults) {
  expectFault(
      [] {
        constexpr size_t kBytes = 2 << 20;
        CUmemAllocationProp wanted{};
        wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
        CUmemGenericAllocationHandle handle = 0;
        CUdeviceptr address = 0;
        DRIVER(cuMemCreate)(&handle, kBytes, &wanted, 0);
        DRIVER(cuMemAddressReserve)(&address, kBytes, 0, 0, 0);
        DRIVER(cuMemMap)(address, kBytes, 0, handle, 0);
        launch(addTo, {}, reinterpret_cast<int*>(address), 1, 1);
      },
      "touches");
}

TEST_F(RuntimeErrors, BlocksThatFindNoRoomAreMissed) {
  const unsigned all = unsigned(2 * processorsPerDevice());  // of 1024 threads
  expectFault(
      [&] {
        uint32_t* const flag = allocateZeros<uint32_t>(1);
        launch(meet, {.grid = {all + 1}, .block = {1024}}, flag, flag, all + 1);
      },
      "no progress");
  expectFault(
      [&] {
        uint32_t* const flag = allocatePinned<uint32_t>(1);
        cudaStream_t const one = makeStream(), other = makeStream();
        launch(meet, {.grid = {all}, .block = {1024}, .stream = one}, flag, flag, all + 1);
        while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) < all) usleep(100);
        launch(meet, {.block = {1024}, .stream = other}, flag, flag, 1u);
      },
      "no progress");
}

TEST_F(RuntimeErrors, BlocksThatLeaveMakeRoom) {
  const unsigned all = unsigned(2 * processorsPerDevice());
  int* const data = allocateZeros<int>(1);
  cudaStream_t const one = makeStream(), other = makeStream();
  for (int i = 0; i < 3; ++i)
    for (cudaStream_t stream : {one, other})
      EXPECT_CUDA(
          launch(addTo, {.grid = {3 * all}, .block = {1024}, .stream = stream}, data, 0, 1));
  synchronize();
}

TEST_F(RuntimeErrors, FaultsStay) {
  const auto body = [] {
    int* const data = allocateZeros<int>(1);
    injectFault(0, cudaErrorIllegalAddress);
    void* memory = nullptr;
    bool isRight = launch(addTo, {}, data, 1, 1) == cudaErrorIllegalAddress &&
                   cudaDeviceSynchronize() == cudaErrorIllegalAddress &&
                   cudaGetLastError() == cudaErrorIllegalAddress &&
                   cudaGetLastError() == cudaErrorIllegalAddress &&
                   cudaMalloc(&memory, 16) == cudaErrorIllegalAddress;
    isRight &= cudaSetDevice(1) == cudaSuccess && cudaMalloc(&memory, 16) == cudaSuccess;
    _exit(isRight ? 0 : 1);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(RuntimeErrors, FaultsComeWithWhatIsWaitedFor) {
  const auto body = [] {
    cudaStream_t const stream = makeStream();
    auto* const flag = allocatePinned<uint32_t>(1);
    launch(awaitFlag, {.stream = stream}, flag, 1u);
    cudaLaunchHostFunc(
        stream, [](void*) { injectFault(0, cudaErrorLaunchFailure); }, nullptr);
    __atomic_store_n(flag, 1u, __ATOMIC_RELEASE);
    _exit(cudaStreamSynchronize(stream) == cudaErrorLaunchFailure ? 0 : 1);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(RuntimeErrors, OneCallFailsWhereATestWantsIt) {
  void* memory = nullptr;
  {
    const FailingCall failing(1, cudaErrorUnknown);
    EXPECT_CUDA(cudaMalloc(&memory, 16));
    EXPECT_CUDA(cudaFree(memory));
    std::thread([] { EXPECT_CUDA(cudaDeviceSynchronize()); }).join();  // calls of its own
    EXPECT_FALSE(failing.hasFailed());
    EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorUnknown);
    EXPECT_EQ(cudaGetLastError(), cudaErrorUnknown);
    EXPECT_TRUE(failing.hasFailed());
    EXPECT_CUDA(cudaMalloc(&memory, 16));
    EXPECT_CUDA(cudaFree(memory));
  }
  const auto reserve = DRIVER(cuMemAddressReserve);
  const FailingCall failing(0, cudaErrorNotPermitted);
  CUdeviceptr address = 0;
  EXPECT_EQ(reserve(&address, 2 << 20, 0, 0, 0), CUDA_ERROR_NOT_PERMITTED);
}

TEST_F(RuntimeErrors, FlushesAreCounted) {
  const uint64_t before = deviceAt(0).flushes;
  EXPECT_CUDA(cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                                 cudaFlushGPUDirectRDMAWritesToOwner));
  EXPECT_EQ(deviceAt(0).flushes, before + 1);
}

// A graph's kernels begin without being asked for again.
TEST_F(RuntimeErrors, KernelsAreCounted) {
  int* const data = allocateZeros<int>(1);
  cudaStream_t const stream = makeStream();
  EXPECT_CUDA(launch(addTo, {.stream = stream}, data, 1, 1));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  const LaunchedKernels kernels;
  EXPECT_CUDA(launch(addTo, {.stream = stream}, data, 1, 1));
  EXPECT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  EXPECT_CUDA(launch(addTo, {.stream = stream}, data, 1, 1));
  EXPECT_CUDA(launch(doubleAndAdd, {.stream = stream}, data, 1, 0));
  cudaGraph_t graph = nullptr;
  EXPECT_CUDA(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t ready = nullptr;
  EXPECT_CUDA(cudaGraphInstantiate(&ready, graph, 0));
  for (int time = 0; time < 3; ++time) EXPECT_CUDA(cudaGraphLaunch(ready, stream));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(kernels.of("addTo").asked, 2);
  EXPECT_EQ(kernels.of("addTo").begun, 4);
  EXPECT_EQ(kernels.of("doubleAndAdd").begun, 3);
  EXPECT_EQ(kernels.of("raiseFlag").asked, 0);
  EXPECT_CUDA(cudaGraphExecDestroy(ready));
  EXPECT_CUDA(cudaGraphDestroy(graph));
}

TEST_F(RuntimeErrors, ThereMayBeNoDevice) {
  setenv("TUTTI_EMULATION_DEVICES", "0", 1);
  const auto body = [] {
    int count = -1;
    _exit(cudaGetDeviceCount(&count) == cudaErrorNoDevice && count == 0 ? 0 : 1);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
  setenv("TUTTI_EMULATION_DEVICES", "many", 1);
  EXPECT_EXIT(deviceCount(), testing::ExitedWithCode(kErrorStatus), "TUTTI_EMULATION_DEVICES=many");
  unsetenv("TUTTI_EMULATION_DEVICES");
}

/// The devices that this process has, by the last letters of their UUIDs.
std::string devicesHere() {
  std::string letters;
  for (int device = 0; device < tutti::emulation::deviceCount(); ++device) {
    cudaDeviceProp all{};
    EXPECT_CUDA(cudaGetDeviceProperties(&all, device));
    letters += all.uuid.bytes[sizeof all.uuid.bytes - 1];
  }
  return letters;
}

TEST_F(RuntimeErrors, DevicesMayBeThoseOfAList) {
  constexpr const char* kName = "TUTTI_EMULATION_VISIBLE_DEVICES";
  setenv("TUTTI_EMULATION_DEVICES", "4", 1);
  const std::pair<const char*, const char*> lists[] = {{"3,0", "DA"},   {"2,", "C"}, {"2,4,1", "C"},
                                                       {"1,-1,0", "B"}, {"-1", ""},  {"", ""}};
  for (const auto& [list, devices] : lists) {
    setenv(kName, list, 1);
    EXPECT_EXIT(_exit(devicesHere() == devices ? 0 : 1), testing::ExitedWithCode(0), "") << list;
  }
  unsetenv(kName);
  const auto before = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string kept = before == nullptr ? "" : before;
  setenv("CUDA_VISIBLE_DEVICES", "2", 1);
  EXPECT_EXIT(_exit(devicesHere() == "ABCD" ? 0 : 1), testing::ExitedWithCode(0), "");
  setenv("TUTTI_EMULATION_CUDA_VISIBLE_DEVICES", "1", 1);
  EXPECT_EXIT(_exit(devicesHere() == "C" ? 0 : 1), testing::ExitedWithCode(0), "");
  setenv(kName, "3,0", 1);
  EXPECT_EXIT(_exit(devicesHere() == "DA" ? 0 : 1), testing::ExitedWithCode(0), "");
  unsetenv("TUTTI_EMULATION_CUDA_VISIBLE_DEVICES");
  if (before == nullptr)
    unsetenv("CUDA_VISIBLE_DEVICES");
  else
    setenv("CUDA_VISIBLE_DEVICES", kept.c_str(), 1);
  const auto buses = [] {
    int of3 = -1, of0 = -1, none = -1;
    EXPECT_CUDA(cudaDeviceGetByPCIBusId(&of3, "0000:33:00.0"));
    EXPECT_CUDA(cudaDeviceGetByPCIBusId(&of0, "0000:1B:00.0"));
    EXPECT_EQ(cudaDeviceGetByPCIBusId(&none, "0000:23:00.0"), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
    _exit(of3 == 0 && of0 == 1 && !HasFailure() ? 0 : 1);
  };
  EXPECT_EXIT(buses(), testing::ExitedWithCode(0), "");
  for (const char* list : {"1,one", "1;2", "0,1,0"}) {
    setenv(kName, list, 1);
    EXPECT_EXIT(devicesHere(), testing::ExitedWithCode(kErrorStatus), std::string(kName) + "=")
        << list;
  }
  unsetenv(kName);
  unsetenv("TUTTI_EMULATION_DEVICES");
}

bool canAccess(int device, int peer) {
  int can = -1, attribute = -1;
  EXPECT_CUDA(cudaDeviceCanAccessPeer(&can, device, peer));
  EXPECT_CUDA(cudaDeviceGetP2PAttribute(&attribute, cudaDevP2PAttrAccessSupported, device, peer));
  EXPECT_EQ(can, attribute);
  return can != 0;
}

/// Of a device, all zero; of its line a kernel there, or a copy, may write the first words.
uint32_t* lineOn(int device) {
  EXPECT_CUDA(cudaSetDevice(device));
  auto* const line = allocateZeros<uint32_t>(64);
  EXPECT_CUDA(cudaDeviceSynchronize());
  return line;
}

void raiseOn(int device, uint32_t* flag) {
  EXPECT_CUDA(cudaSetDevice(device));
  loadKernels();
  EXPECT_CUDA(launch(raiseFlag, {}, flag, 7u));
  EXPECT_CUDA(cudaDeviceSynchronize());
}

// Devices 0 and 1 are apart, where copies go through the host, and 1 and 2 lie.
TEST_F(RuntimeErrors, PairsOfDevicesMayBeApartOrLie) {
  setenv("TUTTI_EMULATION_DEVICES", "3", 1);
  setenv("TUTTI_EMULATION_PEERS", "0-1:none,2-1:lies", 1);
  const auto body = [] {
    EXPECT_FALSE(canAccess(0, 1) || canAccess(1, 0));
    EXPECT_TRUE(canAccess(0, 2) && canAccess(1, 2) && canAccess(2, 1));
    uint32_t *const zero = lineOn(0), *const one = lineOn(1), *const two = lineOn(2);
    EXPECT_CUDA(cudaSetDevice(0));
    EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessUnsupported);
    EXPECT_CUDA(cudaDeviceEnablePeerAccess(2, 0));
    raiseOn(0, two);
    EXPECT_EQ(download(two, 33)[32], 0u);
    raiseOn(1, one);
    EXPECT_CUDA(cudaMemcpyPeer(zero, 0, one, 1, 256));
    EXPECT_EQ(download(zero, 33), download(one, 33));
    raiseOn(1, two);
    EXPECT_EQ(download(two, 33)[32], 1u) << "a bit of the line behind the flag";
    cudaStream_t const stream = makeStream();  // of device 1
    EXPECT_CUDA(cudaMemcpyAsync(two, one, 256, cudaMemcpyDeviceToDevice, stream));
    EXPECT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_NE(download(two, 1), download(one, 1));
    _exit(HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(raiseOn(0, lineOn(1)), testing::ExitedWithCode(kErrorStatus),
              "a store to memory of device 1, to which device 0 has no peer access");
  for (const char* rules : {"0-1", "0-0:none", "0-3:lies", "0-1:maybe", "0-1:none;1-2:lies"}) {
    setenv("TUTTI_EMULATION_PEERS", rules, 1);
    EXPECT_EXIT(canAccess(0, 1), testing::ExitedWithCode(kErrorStatus), "TUTTI_EMULATION_PEERS has")
        << rules;
  }
  unsetenv("TUTTI_EMULATION_PEERS");
  unsetenv("TUTTI_EMULATION_DEVICES");
}

TEST_F(RuntimeErrors, LoadingAKernelMayWaitForTheDevice) {
  setenv("TUTTI_EMULATION_LAZY_LOADING", "1", 1);
  const auto loaded = [] {
    cudaFuncAttributes attributes;
    EXPECT_CUDA(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&raiseFlag)));
  };
  const auto meetAnother = [] {
    auto* const flag = allocatePinned<uint32_t>(1);
    launch(awaitFlag, {.stream = makeStream()}, flag, 1u);
    launch(raiseFlag, {.stream = makeStream()}, flag, 1u);
    synchronize();
  };
  EXPECT_EXIT((loaded(), meetAnother(), _exit(0)), testing::ExitedWithCode(0), "");
  EXPECT_EXIT((meetAnother(), _exit(0)), testing::ExitedWithCode(kErrorStatus), "no progress");
  setenv("TUTTI_EMULATION_LAZY_LOADING", "2", 1);
  EXPECT_EXIT((meetAnother(), _exit(0)), testing::ExitedWithCode(kErrorStatus),
              "nothing has loaded .*awaitFlag.* on device 0");
  unsetenv("TUTTI_EMULATION_LAZY_LOADING");
}

TEST_F(RuntimeErrors, WaitsThatNobodyAskedForMayHoldUpOtherThreads) {
  const auto meetAnother = [] {
    auto* const flag = allocatePinned<uint32_t>(1);
    auto* const word = allocate<uint32_t>(1);
    const cudaStream_t first = makeStream(), second = makeStream();
    launch(awaitFlag, {.stream = first}, flag, 1u);
    std::thread copier([&] {
      uint32_t copied = 0;
      cudaMemcpyAsync(&copied, word, sizeof copied, cudaMemcpyDeviceToHost, first);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    launch(raiseFlag, {.stream = second}, flag, 1u);
    copier.join();
    synchronize();
  };
  EXPECT_EXIT((meetAnother(), _exit(0)), testing::ExitedWithCode(0), "");
  setenv("TUTTI_EMULATION_LOCKED_WAITS", "1", 1);
  EXPECT_EXIT((meetAnother(), _exit(0)), testing::ExitedWithCode(kErrorStatus), "no progress");
  unsetenv("TUTTI_EMULATION_LOCKED_WAITS");
}

TEST_F(RuntimeErrors, TheDriversLibraryIsFound) {
  void* const library = dlopen(TUTTI_EMULATED_DRIVER, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  int count = 0;
  const auto get =
      reinterpret_cast<decltype(&cuDeviceGetCount)>(dlsym(library, "cuDeviceGetCount"));
  ASSERT_NE(get, nullptr);
  EXPECT_EQ(get(&count), CUDA_SUCCESS);
  EXPECT_EQ(count, tutti::emulation::deviceCount());
}

}  // namespace
}  // namespace tutti::emulation
