// Of the CUDA part of the device layer, what only the emulation shows: that the library knows it,
// devices that have faulted, and a machine without one.

#include <functional>
#include <string>

#include <tutti/log.h>

#include "src/device/cuda.h"
#include "src/device/cuda/virtual_memory.h"
#include "tests/device/cuda_test.h"
#include "tests/emulation/runtime/device.h"

namespace tutti::tests {
namespace {

using device::VirtualMemory;

TEST(CudaEmulation, IsKnownForOne) { EXPECT_TRUE(device::cudaSupport().emulated); }

/// In a process of its own, because a fault is for ever.
void failEverything() {
  Stream stream(gpu(1)), other(gpu(0));
  Event event(gpu(1));
  Memory memory = allocateOn(gpu(1), 64);
  std::string logged;
  setLogSink([&](LogLevel, std::string_view text) { logged += text; });
  emulation::injectFault(1, cudaErrorIllegalAddress);
  int failures = 0;
  const auto fails = [&](const char* what, const std::function<void()>& call) {
    const Outcome outcome = outcomeOf(call);
    const std::string words = "on cuda:1: cudaErrorIllegalAddress (an illegal memory access";
    if (outcome.code == ErrorCode::Cuda && outcome.text.find(words) != std::string::npos) return;
    std::fprintf(stderr, "%s: %s\n", what, outcome.text.c_str());
    ++failures;
  };
  fails("synchronize", [&] { stream.synchronize(); });
  fails("query", [&] { stream.query(); });
  fails("enqueue", [&] { stream.enqueue([] {}); });
  fails("record", [&] { event.record(stream); });
  fails("Event::synchronize", [&] { event.synchronize(); });
  fails("allocateOn", [] { allocateOn(gpu(1), 8); });
  fails("VirtualMemory", [] { VirtualMemory::create(1, 8); });
  if (currentDevice() != 0) ++failures;
  other.enqueue([] {});
  other.synchronize();  // the other devices go on
  { Stream gone = std::move(stream); }
  memory = {};
  if (logged.find("a stream was destroyed with a failure nobody saw") == std::string::npos)
    ++failures;
  if (logged.find("memory") == std::string::npos) ++failures;
  std::fprintf(stderr, "%d failures\n", failures);
  std::_Exit(failures);
}

TEST(CudaFaultDeathTest, IsSaidByEveryCallOnItsDeviceAndNoOther) {
  if (devices() < 2) GTEST_SKIP() << "two devices are needed";
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(failEverything(), testing::ExitedWithCode(0), "0 failures");
}

/// The same program on a machine without a GPU: another test of ctest, with no emulated device.
class NoCudaDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (devices() > 0) GTEST_SKIP() << "there are devices";
  }
};

TEST_F(NoCudaDevice, IsRefusedWithTheReasonAndTheHostWorks) {
  EXPECT_EQ(deviceCount(DeviceKind::Cuda), 0);
  const std::string why = whyNoDevice(DeviceKind::Cuda);
  EXPECT_NE(why.find("CUDA finds no GPU: cudaGetDeviceCount: cudaErrorNoDevice"), std::string::npos)
      << why;
  expectError(outcomeOf([] { Stream stream(gpu(0)); }), ErrorCode::Unsupported,
              "there is no device cuda:0: " + why);
  for (const std::function<void()>& call :
       {std::function<void()>([] { allocatePinned(8); }),
        std::function<void()>([] { StreamRef::cuda(nullptr); }),
        std::function<void()>([] { device::copyMemory(nullptr, nullptr, 0); })})
    expectError(outcomeOf(call), ErrorCode::Unsupported, why);
  int value = 0;
  EXPECT_EQ(device::placeOf(&value), device::MemoryPlace{});
  Stream stream;
  stream.enqueue([&] { value = 1; });
  stream.synchronize();
  EXPECT_EQ(value, 1);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

}  // namespace
}  // namespace tutti::tests
