// Attributes of functions, when they are loaded, and occupancy.

#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/kernel.h"
#include "tests/emulation/runtime/registration.h"

namespace tutti::emulation {
namespace {

constexpr int kAssumedRegisters = 32;

uint64_t volume(dim3 shape) { return uint64_t(shape.x) * shape.y * shape.z; }

template <class Answer>
cudaError_t occupancy(const void* function, Answer answer) {
  return call([&]() -> cudaError_t {
    if (!mayBeKernel(function)) return cudaErrorInvalidDeviceFunction;
    isFirstUse(function);
    return answer();
  });
}

}  // namespace

bool mayBeKernel(const void* function) {
  Dl_info symbol{};
  return function != nullptr &&
         (findKernel(function).has_value() || dladdr(function, &symbol) != 0);
}

FunctionSettings& settingsOf(const void* function) {
  static auto* const all = new std::map<const void*, FunctionSettings>;
  return (*all)[function];
}

bool isFirstUse(const void* function) {
  static auto* const loaded = new std::set<std::pair<const void*, int>>;
  return loaded->insert({function, currentDevice()}).second;
}

}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute which, int value) {
  return call([&]() -> cudaError_t {
    if (!mayBeKernel(function)) return cudaErrorInvalidDeviceFunction;
    isFirstUse(function);
    FunctionSettings& settings = settingsOf(function);
    switch (which) {
      case cudaFuncAttributeMaxDynamicSharedMemorySize:
        if (value < 0 || size_t(value) > kMaxDynamicSharedBytes) return cudaErrorInvalidValue;
        settings.dynamicSharedBytes = size_t(value);
        return cudaSuccess;
      case cudaFuncAttributePreferredSharedMemoryCarveout:
        if (value < -1 || value > 100) return cudaErrorInvalidValue;
        settings.carveout = value;
        return cudaSuccess;
      case cudaFuncAttributeNonPortableClusterSizeAllowed:
        settings.mayHaveBigClusters = value != 0;
        return cudaSuccess;
      case cudaFuncAttributeClusterSchedulingPolicyPreference: return cudaSuccess;
      default: return cudaErrorInvalidValue;
    }
  });
}

/// Also loads the function on the current device.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* to, const void* function) {
  return call([&]() -> cudaError_t {
    if (to == nullptr) return cudaErrorInvalidValue;
    if (!mayBeKernel(function)) return cudaErrorInvalidDeviceFunction;
    isFirstUse(function);
    const FunctionSettings& settings = settingsOf(function);
    *to = {};
    to->maxThreadsPerBlock = 1024;
    to->numRegs = kAssumedRegisters;
    to->ptxVersion = to->binaryVersion = 90;
    to->maxDynamicSharedSizeBytes = int(settings.dynamicSharedBytes);
    to->preferredShmemCarveout = settings.carveout;
    to->nonPortableClusterSizeAllowed = settings.mayHaveBigClusters;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache) {
  return occupancy(function, [] { return cudaSuccess; });
}

cudaError_t cudaFuncGetName(const char** name, const void* function) {
  return occupancy(function, [&] {
    static auto* const names = new std::map<const void*, std::string>;
    const auto kernel = findKernel(function);
    const std::string known = kernel ? kernel->name : machineCodeOf(function);
    if (name == nullptr || known.empty()) return cudaErrorInvalidValue;
    *name = names->try_emplace(function, known).first->second.c_str();
    return cudaSuccess;
  });
}

// A handle of a kernel is the address of the host's function.

cudaError_t cudaGetKernel(cudaKernel_t* to, const void* function) {
  return call([&] {
    if (to == nullptr) return cudaErrorInvalidValue;
    if (!mayBeKernel(function)) return cudaErrorInvalidDeviceFunction;
    *to = static_cast<cudaKernel_t>(const_cast<void*>(function));
    return cudaSuccess;
  });
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* to, const void* function) {
  return cudaGetKernel(reinterpret_cast<cudaKernel_t*>(to), function);
}

/// Attributes are those of all devices.
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute which, int value,
                                            int device) {
  return isDevice(device) ? cudaFuncSetAttribute(kernel, which, value)
                          : remember(cudaErrorInvalidDevice);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* to, const void* function,
                                                                   int threads, size_t sharedBytes,
                                                                   unsigned flags) {
  return occupancy(function, [&] {
    if (to == nullptr || threads <= 0 ||
        (flags & ~unsigned(cudaOccupancyDisableCachingOverride)) != 0)
      return cudaErrorInvalidValue;
    const bool fits = sharedBytes <= settingsOf(function).dynamicSharedBytes;
    *to = fits ? blocksPerProcessor(uint64_t(threads), sharedBytes) : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* to, const void* function,
                                                          int threads, size_t sharedBytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(to, function, threads, sharedBytes,
                                                                cudaOccupancyDefault);
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int* to, const void* function,
                                                 const cudaLaunchConfig_t* config) {
  return occupancy(function, [&] {
    if (to == nullptr || config == nullptr) return cudaErrorInvalidValue;
    const int all = processorsPerDevice() *
                    blocksPerProcessor(volume(config->blockDim), config->dynamicSmemBytes);
    const int most =
        int(settingsOf(function).mayHaveBigClusters ? kMaxCluster : kMaxPortableCluster);
    *to = std::min(most, all);
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveClusters(int* to, const void* function,
                                           const cudaLaunchConfig_t* config) {
  return occupancy(function, [&]() -> cudaError_t {
    Launch launch;
    if (to == nullptr || config == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t bad = readAttributes(*config, launch); bad != cudaSuccess) return bad;
    const int all = processorsPerDevice() *
                    blocksPerProcessor(volume(config->blockDim), config->dynamicSmemBytes);
    *to = all / int(volume(launch.cluster));
    return cudaSuccess;
  });
}

}  // extern "C"
