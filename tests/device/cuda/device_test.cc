// What holds for all of the CUDA part of the device layer: the caller's device stays current,
// errors say what and where, kernels are loaded, and a forked child is refused.

#include <unistd.h>

#include <functional>
#include <optional>
#include <string>

#include <tutti/cuda/launch.h>
#include <tutti/log.h>

#include "src/device/cuda.h"
#include "src/device/cuda/driver.h"
#include "src/device/cuda/guards.h"
#include "src/device/cuda/virtual_memory.h"
#include "tests/device/cuda_test.h"
#include "tests/emulation/runtime_device.cuh"
#include "tests/support/child_processes.h"

namespace tutti::tests {
namespace {

using device::Kernel;
using device::VirtualMemory;

class CudaDevices : public CudaTest {};
class CudaErrors : public CudaTest {};
class CudaKernels : public CudaTest {};

TEST_F(CudaDevices, AreCountedAndNamed) {
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(deviceCount(DeviceKind::Cuda), count);
  EXPECT_EQ(deviceCount(DeviceKind::Host), 1);
  EXPECT_EQ(whyNoDevice(DeviceKind::Cuda), "");
  EXPECT_EQ(toString(gpu(3)), "cuda:3");
}

TEST_F(CudaDevices, ThatAreNotThereAreRefused) {
  for (const int index : {-1, devices(), 1 << 30}) {
    const std::string words = "there is no device cuda:" + std::to_string(index) + ": CUDA sees " +
                              std::to_string(devices());
    expectError(outcomeOf([&] { Stream stream(gpu(index)); }), ErrorCode::Unsupported, words);
    expectError(outcomeOf([&] { Event event(gpu(index)); }), ErrorCode::Unsupported, words);
    expectError(outcomeOf([&] { allocateOn(gpu(index), 1); }), ErrorCode::Unsupported, words);
    expectError(outcomeOf([&] { device::loadKernels({}, index); }), ErrorCode::Unsupported, words);
  }
}

// Whatever device is current, and whatever device the call is about.
TEST_F(CudaDevices, TheCurrentOneIsTheCallersAfterStreamsAndEvents) {
  std::optional<Stream> stream;
  std::optional<Event> event;
  onEveryDevice("Stream", [&] { stream.emplace(someGpu(2)); });
  onEveryDevice("enqueue", [&] { stream->enqueue([] {}); });
  onEveryDevice("query", [&] { stream->query(); });
  onEveryDevice("synchronize", [&] { stream->synchronize(); });
  onEveryDevice("StreamRef::cuda", [&] { StreamRef::cuda(StreamRef(*stream).cuda()); });
  onEveryDevice("Event", [&] { event.emplace(someGpu(2)); });
  onEveryDevice("record", [&] { event->record(*stream); });
  onEveryDevice("wait", [&] { event->wait(*stream); });
  onEveryDevice("Event::query", [&] { event->query(); });
  onEveryDevice("Event::synchronize", [&] { event->synchronize(); });
  onEveryDevice("~Event", [&] { Event gone(someGpu(2)); });
  onEveryDevice("~Stream", [&] { Stream gone(someGpu(2)); });
}

TEST_F(CudaDevices, TheCurrentOneIsTheCallersAfterMemory) {
  onEveryDevice("allocateOn", [] { allocateOn(someGpu(2), 64); });
  onEveryDevice("allocatePinned", [] { allocatePinned(64); });
  onEveryDevice("failed allocation",
                [] { outcomeOf([] { allocateOn(someGpu(2), size_t{1} << 40); }); });
  Memory memory = allocateOn(someGpu(1), 64);
  onEveryDevice("placeOf", [&] { device::placeOf(memory.data()); });
  onEveryDevice("copyMemory", [&] { device::copyMemory(memory.data(), memory.data(), 0); });
  onEveryDevice("granularity", [] { VirtualMemory::granularity(someGpu(1).index); });
  onEveryDevice("VirtualMemory", [] {
    VirtualMemory shared = VirtualMemory::create(someGpu(1).index, 64);
    shared.allow(someGpu(3).index);
    VirtualMemory::open(shared.exported(), someGpu(2).index, shared.bytes());
  });
  onEveryDevice("deviceCount", [] { deviceCount(DeviceKind::Cuda); });
  onEveryDevice("loadKernels", [] {
    const Kernel kernel{"addTo", cuda::addressOf(emulation::addTo)};
    device::loadKernels({&kernel, 1}, someGpu(3).index);
  });
}

TEST_F(CudaErrors, SayTheCallTheDeviceAndCudasWords) {
  const device::OnDevice here(someGpu(2).index);
  const Outcome outcome = outcomeOf([] { TUTTI_CUDA(cudaSetDevice(77)); });
  expectError(outcome, ErrorCode::Cuda,
              "cudaSetDevice(77) failed on " + toString(someGpu(2)) +
                  ": cudaErrorInvalidDevice (invalid device ordinal)");
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the program would take it for its own";
}

TEST_F(CudaErrors, OfDriverFunctionsThatAreMissingNameThem) {
  expectError(outcomeOf([] { device::findDriverFunction("cuNoSuchFunction", 12000); }),
              ErrorCode::Unsupported, "the CUDA driver has no cuNoSuchFunction of CUDA 12.0");
}

// A library that is not given a kernel's address finds out when it loads it, not at the first call.
TEST_F(CudaKernels, AreLoadedOrNamed) {
  const Kernel kernels[] = {{"addTo", cuda::addressOf(emulation::addTo)}, {"nothing", nullptr}};
  const Device device = someGpu(1);
  device::loadKernels({kernels, 1}, device.index);
  expectError(outcomeOf([&] { device::loadKernels(kernels, device.index); }), ErrorCode::Cuda,
              "cudaFuncGetAttributes failed on " + toString(device) +
                  ": cudaErrorInvalidDeviceFunction (invalid device function): kernel nothing");
}

struct Step {
  const char* name;
  std::function<void()> call;
};

/// In a child: the number of the first step that is not refused as a fork's, from 1.
int firstNotRefused(const std::vector<Step>& steps) {
  for (size_t i = 0; i < steps.size(); ++i) {
    const Outcome outcome = outcomeOf(steps[i].call);
    if (outcome.code == ErrorCode::InvalidUsage &&
        outcome.text.find("was forked from process") != std::string::npos)
      continue;
    std::fprintf(stderr, "%s: %s\n", steps[i].name, outcome.text.c_str());
    return static_cast<int>(i) + 1;
  }
  return 0;
}

TEST_F(CudaDevices, OfAForkedChildAreRefusedAndLeftAlone) {
  std::optional<Stream> stream(gpu(0));
  std::optional<Event> event(gpu(0));
  std::optional<Memory> memory(allocateOn(gpu(0), 64)), pinned(allocatePinned(64));
  std::optional<VirtualMemory> shared(VirtualMemory::create(0, 64));
  std::string logged;
  setLogSink([&](LogLevel, std::string_view text) { logged += text; });
  CudaGate gate(*stream);
  event->record(*stream);
  const std::vector<Step> steps = {{"enqueue", [&] { stream->enqueue([] {}); }},
                                   {"synchronize", [&] { stream->synchronize(); }},
                                   {"query", [&] { stream->query(); }},
                                   {"record", [&] { event->record(*stream); }},
                                   {"wait", [&] { event->wait(*stream); }},
                                   {"Event::synchronize", [&] { event->synchronize(); }},
                                   {"Event::query", [&] { event->query(); }},
                                   {"allow", [&] { shared->allow(0); }},
                                   {"exported", [&] { shared->exported(); }}};
  const int code = tests::inChild([&] {
    if (const int step = firstNotRefused(steps)) return step;
    stream.reset();
    event.reset();
    memory.reset();
    pinned.reset();
    shared.reset();
    return logged.empty() ? 0 : 99;
  });
  EXPECT_EQ(code, 0);
  gate.open();
  stream->synchronize();
  EXPECT_TRUE(event->query()) << "the parent's are as they were";
  setLogSink(nullptr);
  EXPECT_EQ(logged, "");
}

// CUDA does not survive a fork: nothing can be made there either.
TEST_F(CudaDevices, AreNotForAForkedChildToBegin) {
  EXPECT_GT(devices(), 0);
  const std::vector<Step> steps = {{"Stream", [] { Stream made(gpu(0)); }},
                                   {"Event", [] { Event made(gpu(0)); }},
                                   {"allocateOn", [] { allocateOn(gpu(0), 8); }},
                                   {"allocatePinned", [] { allocatePinned(8); }},
                                   {"StreamRef::cuda", [] { StreamRef::cuda(nullptr); }},
                                   {"placeOf", [] { device::placeOf(&kDevices); }},
                                   {"deviceCount", [] { deviceCount(DeviceKind::Cuda); }}};
  EXPECT_EQ(tests::inChild([&] { return firstNotRefused(steps); }), 0);
}

}  // namespace
}  // namespace tutti::tests
