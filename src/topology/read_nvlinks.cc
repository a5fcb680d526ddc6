// What NVML knows of the GPUs that the CUDA driver has shown.

#include "src/base/shared_library.h"
#include "src/topology/read_machine.h"

namespace tutti::topology {
namespace {

// More than any GPU has; NVML refuses a number that the GPU at hand has not.
constexpr unsigned kMostLinks = 64;

/// Links that are up; nothing when NVML does not know the GPU, as a part of one, or its links.
std::optional<int> linksOf(const Nvml& nvml, const std::string& uuid) {
  void* device = nullptr;
  if (uuid.empty() || nvml.deviceByUuid(uuid.c_str(), &device) != 0) return std::nullopt;
  int active = 0;
  unsigned link = 0;
  for (unsigned isActive = 0; link < kMostLinks; ++link) {
    if (nvml.nvLinkState(device, link, &isActive) != 0) break;
    active += isActive != 0;
  }
  return active;
}

}  // namespace

Nvml loadNvml() {
  Nvml nvml;
  const base::SharedLibrary library("libnvidia-ml.so.1");
  nvml.missing = library.missing();
  if (!library) return nvml;
  const bool complete = library.find("nvmlInit_v2", nvml.init) &&
                        library.find("nvmlShutdown", nvml.shutdown) &&
                        library.find("nvmlDeviceGetHandleByUUID", nvml.deviceByUuid) &&
                        library.find("nvmlDeviceGetNvLinkState", nvml.nvLinkState);
  if (!complete) return {.missing = "libnvidia-ml.so.1 lacks functions that it always had"};
  return nvml;
}

void readNvLinks(Machine& machine, const Nvml& nvml) {
  if (machine.gpus.empty() || !nvml.missing.empty() || nvml.init() != 0) return;
  for (Gpu& gpu : machine.gpus) gpu.nvLinks = linksOf(nvml, gpu.uuid);
  nvml.shutdown();
}

}  // namespace tutti::topology
