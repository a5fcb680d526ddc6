// Devices, their attributes, and who may touch whose memory.

#include "tests/emulation/runtime/device.h"

#include <cuda.h>
#include <cuda_profiler_api.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/stream.h"

namespace tutti::emulation {
namespace {

/// `chosen` by cudaSetDevice().
thread_local int current = 0, chosen = 0;
thread_local bool isAttached = false;

bool isLimit(cudaLimit which) {
  return which >= cudaLimitStackSize && which <= cudaLimitPersistingL2CacheSize;
}

std::array<Device, kMaxDevices>& devices() {
  static auto* const all = [] {
    auto* const made = new std::array<Device, kMaxDevices>;
    for (Device& device : *made) {
      device.room = std::make_shared<Room>();
      device.room->free = static_cast<uint64_t>(processorsPerDevice()) * kRoomOfProcessor;
    }
    return made;
  }();
  return *all;
}

}  // namespace

int placeOf(int device) { return environment().visible.at(static_cast<size_t>(device)); }
std::optional<int> deviceOfPlace(int place) {
  for (int device = 0; device < deviceCount(); ++device)
    if (placeOf(device) == place) return device;
  return std::nullopt;
}
int busOf(int device) { return 0x1b + 8 * placeOf(device); }
std::string uuidOf(int device) {
  return "Tutti emulated " + std::string(1, char('A' + placeOf(device)));
}

int deviceCount() { return static_cast<int>(environment().visible.size()); }
int processorsPerDevice() { return environment().processors; }
size_t bytesPerDevice() { return environment().memoryBytes; }
bool isDevice(int index) { return index >= 0 && index < deviceCount(); }
Device& deviceAt(int index) { return devices()[static_cast<size_t>(index)]; }
int currentDevice() { return current; }
void setCurrentDevice(int index) {
  current = index;
  isAttached = true;
}
bool hasContext() { return isAttached && deviceAt(current).isActive; }
void attachContext() { isAttached = true; }
void detachContext() {
  current = chosen;
  isAttached = false;
}
cudaError_t faultOf(int device) { return deviceAt(device).fault.load(); }
void injectFault(int device, cudaError_t error) { deviceAt(device).fault.store(error); }

std::optional<int> attributeOf(int which, int device) {
  if (which < 1 || which >= CU_DEVICE_ATTRIBUTE_MAX) return std::nullopt;
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return 0x7fffffff;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return int(kDefaultSharedBytes);
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return int(kMaxDynamicSharedBytes);
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return int(kSharedBytesPerProcessor);
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: return int(kReservedSharedBytes);
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: return 65536;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH: return 0x7fffffff;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: return 65536;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: return 1980000;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return 2619000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return 5120;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return 50 << 20;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
    case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT: return 512;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT: return 32;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return processorsPerDevice();
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return kThreadsPerProcessor;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: return kBlocksPerProcessor;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return 9;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: return 3;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return busOf(device);
    case CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT: return 4;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
      return CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED: return 1;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
      return CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST;
    case CU_DEVICE_ATTRIBUTE_NUMA_ID: return -1;
    default: return 0;  // among them managed memory, the order of GPUDirect RDMA and fabric handles
  }
}

}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return call([&] {
    if (count == nullptr) return cudaErrorInvalidValue;
    *count = deviceCount();
    return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
  });
}

/// Also from a device that a kernel has faulted on: another one goes on.
cudaError_t cudaSetDevice(int index) {
  if (!isDevice(index))
    return remember(deviceCount() == 0 ? cudaErrorNoDevice : cudaErrorInvalidDevice);
  const int before = currentDevice();
  setCurrentDevice(index);
  const cudaError_t refused = refuse();
  if (refused != cudaSuccess && refused != faultOf(index)) {
    setCurrentDevice(before);
    return remember(refused);
  }
  chosen = index;
  if (refused == cudaSuccess) deviceAt(index).isActive = true;
  return remember(refused);
}

cudaError_t cudaGetDevice(int* index) {
  if (index == nullptr) return remember(cudaErrorInvalidValue);
  *index = currentDevice();
  return remember(refuse());
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int index) {
  return call([&] {
    if (value == nullptr) return cudaErrorInvalidValue;
    if (!isDevice(index)) return cudaErrorInvalidDevice;
    const auto found = attributeOf(which, index);
    if (!found) return cudaErrorInvalidValue;
    *value = *found;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* to, int index) {
  return call([&] {
    if (to == nullptr) return cudaErrorInvalidValue;
    if (!isDevice(index)) return cudaErrorInvalidDevice;
    const auto get = [&](CUdevice_attribute which) { return *attributeOf(which, index); };
    cudaDeviceProp all{};
    std::snprintf(all.name, sizeof all.name, "%s", kDeviceName);
    const std::string uuid = uuidOf(index);
    std::memcpy(&all.uuid, uuid.data(), sizeof all.uuid);
    all.totalGlobalMem = bytesPerDevice();
    all.sharedMemPerBlock = kDefaultSharedBytes;
    all.sharedMemPerBlockOptin = kMaxDynamicSharedBytes;
    all.sharedMemPerMultiprocessor = kSharedBytesPerProcessor;
    all.reservedSharedMemPerBlock = kReservedSharedBytes;
    all.regsPerBlock = all.regsPerMultiprocessor = 65536;
    all.warpSize = 32;
    all.memPitch = 0x7fffffff;
    all.maxThreadsPerBlock = all.maxThreadsDim[0] = all.maxThreadsDim[1] = 1024;
    all.maxThreadsDim[2] = 64;
    all.maxGridSize[0] = 0x7fffffff;
    all.maxGridSize[1] = all.maxGridSize[2] = 65535;
    all.totalConstMem = 65536;
    all.major = 9;
    all.textureAlignment = all.surfaceAlignment = 512;
    all.multiProcessorCount = processorsPerDevice();
    all.maxThreadsPerMultiProcessor = kThreadsPerProcessor;
    all.maxBlocksPerMultiProcessor = kBlocksPerProcessor;
    all.canMapHostMemory = all.concurrentKernels = all.unifiedAddressing = 1;
    all.streamPrioritiesSupported = all.cooperativeLaunch = all.hostRegisterSupported = 1;
    all.canUseHostPointerForRegisteredMem = all.computePreemptionSupported = 1;
    all.memoryPoolsSupported = all.ipcEventSupported = all.clusterLaunch = 1;
    all.memoryPoolSupportedHandleTypes = cudaMemHandleTypePosixFileDescriptor;
    all.pciBusID = busOf(index);
    all.gpuDirectRDMAFlushWritesOptions = cudaFlushGPUDirectRDMAWritesOptionHost;
    all.asyncEngineCount = get(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
    all.memoryBusWidth = get(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
    all.l2CacheSize = get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    *to = all;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int index) {
  return call([&] {
    if (text == nullptr || length < 13) return cudaErrorInvalidValue;
    if (!isDevice(index)) return cudaErrorInvalidDevice;
    std::snprintf(text, static_cast<size_t>(length), "0000:%02X:00.0", busOf(index));
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetByPCIBusId(int* index, const char* text) {
  return call([&] {
    unsigned domain = 0, bus = 0, slot = 0;
    if (index == nullptr || text == nullptr) return cudaErrorInvalidValue;
    if (std::sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3 &&
        (domain = 0, std::sscanf(text, "%x:%x", &bus, &slot)) != 2)
      return cudaErrorInvalidValue;
    for (int i = 0; i < deviceCount(); ++i)
      if (domain == 0 && slot == 0 && bus == unsigned(busOf(i))) return *index = i, cudaSuccess;
    return cudaErrorInvalidDevice;
  });
}

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit which) {
  return call([&] {
    if (value == nullptr || !isLimit(which)) return cudaErrorInvalidValue;
    *value = deviceAt(currentDevice()).limits[which];
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSetLimit(cudaLimit which, size_t value) {
  return call([&] {
    if (!isLimit(which)) return cudaErrorInvalidValue;
    deviceAt(currentDevice()).limits[which] = value;
    return cudaSuccess;
  });
}

/// Counted: what networks write is there at once.
cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTarget target,
                                               cudaFlushGPUDirectRDMAWritesScope scope) {
  return call([&] {
    if (target != cudaFlushGPUDirectRDMAWritesTargetCurrentDevice ||
        (scope != cudaFlushGPUDirectRDMAWritesToOwner &&
         scope != cudaFlushGPUDirectRDMAWritesToAllDevices))
      return cudaErrorInvalidValue;
    ++deviceAt(currentDevice()).flushes;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDeviceFlags(unsigned flags) {
  return call([&] {
    const unsigned schedule = flags & cudaDeviceScheduleMask;
    const bool isOne = (schedule & (schedule - 1)) == 0;
    if (!isOne || (flags & ~unsigned(cudaDeviceMask)) != 0) return cudaErrorInvalidValue;
    deviceAt(currentDevice()).flags = flags;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceFlags(unsigned* to) {
  return call([&] {
    if (to == nullptr) return cudaErrorInvalidValue;
    *to = deviceAt(currentDevice()).flags;
    return cudaSuccess;
  });
}

cudaError_t cudaInitDevice(int index, unsigned, unsigned) {
  return call([&] {
    if (!isDevice(index)) return cudaErrorInvalidDevice;
    deviceAt(index).isActive = true;
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return call([&] {
    if (version == nullptr) return cudaErrorInvalidValue;
    *version = CUDA_VERSION;
    return cudaSuccess;
  });
}

// Nothing profiles emulated devices.
cudaError_t cudaProfilerStart() {
  return call([] { return cudaSuccess; });
}
cudaError_t cudaProfilerStop() {
  return call([] { return cudaSuccess; });
}

cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call([&] {
    if (least != nullptr) *least = kLeastPriority;
    if (greatest != nullptr) *greatest = kGreatestPriority;
    return cudaSuccess;
  });
}

}  // extern "C"
