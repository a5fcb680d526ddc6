// What the CUDA driver sees.

#include <array>

#include "src/base/check.h"
#include "src/base/shared_library.h"
#include "src/topology/read_machine.h"

namespace tutti::topology {
namespace {

// Of cuda.h's CUdevice_attribute.
constexpr int kComputeCapabilityMajor = 75, kComputeCapabilityMinor = 76;
constexpr int kMostGpus = 1024;

/// As nvidia-smi writes it, and NVML reads it.
std::string textOf(const std::array<uint8_t, 16>& uuid) {
  std::string text = "GPU";
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 0 || (i >= 4 && i <= 10 && i % 2 == 0)) text += '-';
    for (const int digit : {uuid[i] >> 4, uuid[i] & 15}) text += "0123456789abcdef"[digit];
  }
  return text;
}

class GpuReader {
 public:
  GpuReader(Machine& machine, const CudaDriver& driver) : machine_(machine), driver_(driver) {}

  /// Nothing is read of a driver that does not start, for instance because no GPU is there.
  void read() {
    int version = 0, count = 0;
    if (!works(driver_.driverGetVersion(&version), "cuDriverGetVersion")) return;
    machine_.libraries.back().version = base::message(version / 1000, ".", version % 1000 / 10);
    if (!works(driver_.init(0), "cuInit") ||
        !works(driver_.deviceGetCount(&count), "cuDeviceGetCount"))
      return;
    if (count < 0 || count > kMostGpus) {
      machine_.problems.push_back(
          base::message("CUDA driver: it says that there are ", count, " GPUs"));
      return;
    }
    for (int i = 0; i < count; ++i) readGpu(i, count);
  }

 private:
  bool works(int error, const char* call) {
    if (error == 0) return true;
    const char* text = nullptr;
    if (driver_.getErrorString(error, &text) != 0 || !text) text = "no text";
    machine_.problems.push_back(
        base::message("CUDA driver: ", call, " failed: ", text, " (error ", error, ")"));
    return false;
  }

  void readGpu(int ordinal, int count) {
    Gpu gpu;
    int device = 0;
    std::array<char, 256> name{};
    std::array<char, 32> bus{};
    size_t bytes = 0;
    if (works(driver_.deviceGet(&device, ordinal), "cuDeviceGet")) {
      if (works(driver_.deviceGetName(name.data(), static_cast<int>(name.size()) - 1, device),
                "cuDeviceGetName"))
        gpu.name = name.data();
      if (works(driver_.deviceGetPciBusId(bus.data(), static_cast<int>(bus.size()) - 1, device),
                "cuDeviceGetPCIBusId"))
        gpu.pci = PciAddress::parse(bus.data());
      if (std::array<uint8_t, 16> uuid{};
          works(driver_.deviceGetUuid(uuid.data(), device), "cuDeviceGetUuid"))
        gpu.uuid = textOf(uuid);
      if (works(driver_.deviceTotalMem(&bytes, device), "cuDeviceTotalMem"))
        gpu.memoryBytes = bytes;
      works(driver_.deviceGetAttribute(&gpu.major, kComputeCapabilityMajor, device),
            "cuDeviceGetAttribute");
      works(driver_.deviceGetAttribute(&gpu.minor, kComputeCapabilityMinor, device),
            "cuDeviceGetAttribute");
    }
    for (int other = 0; other < count; ++other)
      gpu.reaches.push_back(other == ordinal || reaches(device, other));
    machine_.gpus.push_back(std::move(gpu));
  }

  bool reaches(int device, int otherOrdinal) {
    int other = 0, can = 0;
    return works(driver_.deviceGet(&other, otherOrdinal), "cuDeviceGet") &&
           works(driver_.deviceCanAccessPeer(&can, device, other), "cuDeviceCanAccessPeer") &&
           can != 0;
  }

  Machine& machine_;
  const CudaDriver& driver_;
};

}  // namespace

CudaDriver loadCudaDriver() {
  CudaDriver driver;
  const base::SharedLibrary library("libcuda.so.1");
  driver.missing = library.missing();
  if (!library) return driver;
  const bool complete = library.find("cuInit", driver.init) &&
                        library.find("cuGetErrorString", driver.getErrorString) &&
                        library.find("cuDriverGetVersion", driver.driverGetVersion) &&
                        library.find("cuDeviceGetCount", driver.deviceGetCount) &&
                        library.find("cuDeviceGet", driver.deviceGet) &&
                        library.find("cuDeviceGetName", driver.deviceGetName) &&
                        library.find("cuDeviceGetPCIBusId", driver.deviceGetPciBusId) &&
                        library.find("cuDeviceGetUuid_v2", driver.deviceGetUuid) &&
                        library.find("cuDeviceTotalMem_v2", driver.deviceTotalMem) &&
                        library.find("cuDeviceGetAttribute", driver.deviceGetAttribute) &&
                        library.find("cuDeviceCanAccessPeer", driver.deviceCanAccessPeer);
  if (!complete) return {.missing = "libcuda.so.1 lacks functions that it always had"};
  return driver;
}

void readGpus(Machine& machine, const CudaDriver& driver) {
  machine.libraries.push_back({.name = "CUDA driver", .missing = driver.missing});
  if (driver.missing.empty()) GpuReader(machine, driver).read();
}

}  // namespace tutti::topology
