// A libnvidia-ml.so.1 that knows the first three of the emulation's GPUs: 18 NVLinks that are up;
// 18 of which every third is down; and none at all. Its errors are NVML's.

#include <string_view>

namespace {

constexpr int kUninitialized = 1, kInvalidArgument = 2, kNotSupported = 3, kNotFound = 6;
constexpr unsigned kLinks = 18;

struct Device {
  std::string_view uuid;
  unsigned links, downEach;  // every so many-th is down; 0: none is
};
// As the emulation's runtime/device.cc makes them: "Tutti emulated A", and so on.
Device devices[] = {{"GPU-54757474-6920-656d-756c-617465642041", kLinks, 0},
                    {"GPU-54757474-6920-656d-756c-617465642042", kLinks, 3},
                    {"GPU-54757474-6920-656d-756c-617465642043", 0, 0}};

int opened = 0;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  ++opened;
  return 0;
}

int nvmlShutdown() {
  if (opened == 0) return kUninitialized;
  --opened;
  return 0;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (opened == 0) return kUninitialized;
  for (Device& known : devices) {
    if (known.uuid != uuid) continue;
    *device = &known;
    return 0;
  }
  return kNotFound;
}

int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* isActive) {
  if (opened == 0) return kUninitialized;
  const Device& asked = *static_cast<const Device*>(device);
  if (asked.links == 0) return kNotSupported;
  if (link >= asked.links) return kInvalidArgument;
  *isActive = asked.downEach == 0 || link % asked.downEach != 0;
  return 0;
}

}  // extern "C"
