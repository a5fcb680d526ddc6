#pragma once

// The functions of NVIDIA's management library that the inventory calls: the driver does not say
// how many NVLinks a GPU has. Found when the program runs, as cuda_driver.h's are.

#include <string>

namespace tutti::topology {

/// The types are those of nvml.h: nvmlReturn_t is an int, 0 is success; a device is a pointer.
struct Nvml {
  std::string missing;  ///< why there is none; then no function is set

  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*deviceByUuid)(const char* uuid, void** device) = nullptr;
  int (*nvLinkState)(void* device, unsigned link, unsigned* isActive) = nullptr;
};

/// From libnvidia-ml.so.1.
Nvml loadNvml();

}  // namespace tutti::topology
