// The driver's functions by their names, and those of them that only ask.

#include "tests/emulation/runtime/driver.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <set>
#include <string_view>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/context.h"
#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/memory/memory.h"
#include "tests/emulation/tensor_map.h"

namespace tutti::emulation {
namespace {

struct Entry {
  const char* name;  // as the library exports it
  void* function;
};

#define TUTTI_ENTRY(name) {#name, reinterpret_cast<void*>(&name)},
const Entry kEntries[] = {TUTTI_DRIVER_FUNCTIONS(TUTTI_ENTRY)};
#undef TUTTI_ENTRY

/// By the name without its version, which the newest of them has.
void* findUnversioned(std::string_view name) {
  for (const Entry& each : kEntries) {
    std::string_view plain = each.name;
    if (plain.ends_with("_v2")) plain.remove_suffix(3);
    if (plain == name) return each.function;
  }
  return nullptr;
}

/// Those that were given out, each for a callback.
std::set<CUlogsCallbackHandle>& logHandles() {
  static auto* const all = new std::set<CUlogsCallbackHandle>;
  return *all;
}

template <class Value>
cudaError_t store(void* to, Value value) {
  *static_cast<Value*>(to) = value;
  return cudaSuccess;
}

cudaError_t pointerAttribute(void* to, CUpointer_attribute which, const Allocation& found,
                             CUdeviceptr address) {
  using Kind = Allocation::Kind;
  const auto start = reinterpret_cast<CUdeviceptr>(found.start);
  switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return store(to, contextOf(found.device));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return store<unsigned>(to, found.isHost() ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return store(to, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!found.isHost()) return cudaErrorInvalidValue;
      return store(to, reinterpret_cast<void*>(address));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return store<bool>(to, false);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return store<int>(to, found.device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return store<bool>(to, found.kind == Kind::Device);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return store(to, start);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return store(to, found.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED: return store<bool>(to, true);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return store(to, found.pool);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return store<bool>(to, false);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: return store<unsigned long long>(to, start);
    default: return cudaErrorNotSupported;
  }
}

cudaError_t zeroAttribute(void* to, CUpointer_attribute which) {
  switch (which) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: return store<unsigned>(to, 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return store<int>(to, CU_DEVICE_INVALID);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return store<bool>(to, false);
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: return store<uint64_t>(to, 0);
    default: return cudaErrorNotSupported;
  }
}

}  // namespace

}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

void* tuttiEmulatedDriverFunction(const char* name) {
  for (const Entry& each : kEntries)
    if (std::strcmp(each.name, name) == 0) return each.function;
  return nullptr;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* found) {
  return call([&] {
    if (name == nullptr || function == nullptr || flags > cudaEnablePerThreadDefaultStream)
      return cudaErrorInvalidValue;
    const bool isNewer = version > CUDA_VERSION;
    *function = isNewer ? nullptr : findUnversioned(name);
    const auto how = isNewer                ? cudaDriverEntryPointVersionNotSufficent
                     : *function == nullptr ? cudaDriverEntryPointSymbolNotFound
                                            : cudaDriverEntryPointSuccess;
    if (found != nullptr) *found = how;
    // Without anywhere to put the answer, not to find it is an error.
    if (found == nullptr && how != cudaDriverEntryPointSuccess) return cudaErrorSymbolNotFound;
    return cudaSuccess;
  });
}

CUresult cuGetProcAddress_v2(const char* name, void** function, int, cuuint64_t,
                             CUdriverProcAddressQueryResult* found) {
  if (name == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = findUnversioned(name);
  if (found != nullptr)
    *found =
        *function != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                void* base, const cuuint64_t* size, const cuuint64_t* strideBytes,
                                const cuuint32_t* box, const cuuint32_t* elementStrides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  return encodeTensorMap(map, type, rank, base, size, strideBytes, box, elementStrides, interleave,
                         swizzle, promotion, fill);
}

CUresult cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return deviceCount() == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* to) { return CUresult(cudaDriverGetVersion(to)); }

CUresult cuGetErrorName(CUresult error, const char** to) {
  // The two kinds of errors have the same numbers; the driver's names are not kept here.
  *to = cudaGetErrorName(cudaError_t(error));
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult error, const char** to) {
  *to = cudaGetErrorString(cudaError_t(error));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* to) {
  if (to == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *to = deviceCount();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* to, int index) {
  if (to == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!isDevice(index)) return CUDA_ERROR_INVALID_DEVICE;
  *to = index;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* to, int bytes, CUdevice device) {
  if (to == nullptr || bytes <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!isDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(to, size_t(bytes), "%s", kDeviceName);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* to, CUdevice device) {
  if (to == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!isDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::memcpy(to, uuidOf(device).data(), sizeof *to);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t* to, CUdevice device) {
  if (to == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!isDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  *to = bytesPerDevice();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* to, CUdevice_attribute which, CUdevice device) {
  return driverCall([&] {
    if (to == nullptr) return cudaErrorInvalidValue;
    if (!isDevice(device)) return cudaErrorInvalidDevice;
    const auto found = attributeOf(which, device);
    if (!found) return cudaErrorInvalidValue;
    *to = *found;
    return cudaSuccess;
  });
}

CUresult cuDeviceGetPCIBusId(char* to, int bytes, CUdevice device) {
  return CUresult(cudaDeviceGetPCIBusId(to, bytes, device));
}

CUresult cuDeviceCanAccessPeer(int* to, CUdevice device, CUdevice peer) {
  return CUresult(cudaDeviceCanAccessPeer(to, device, peer));
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* start, size_t* bytes, CUdeviceptr address) {
  return driverCall([&] {
    const Allocation* const found = findAllocation(reinterpret_cast<void*>(address));
    if (found == nullptr) return cudaError_t(CUDA_ERROR_NOT_FOUND);
    if (start != nullptr) *start = reinterpret_cast<CUdeviceptr>(found->start);
    if (bytes != nullptr) *bytes = found->bytes;
    return cudaSuccess;
  });
}

CUresult cuPointerGetAttribute(void* to, CUpointer_attribute which, CUdeviceptr address) {
  return driverCall([&] {
    const Allocation* const found = findAllocation(reinterpret_cast<void*>(address));
    if (to == nullptr || found == nullptr) return cudaErrorInvalidValue;
    return pointerAttribute(to, which, *found, address);
  });
}

/// Of an address that CUDA does not know, all are zero.
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* which, void** to,
                                CUdeviceptr address) {
  return driverCall([&]() -> cudaError_t {
    if (count == 0 || which == nullptr || to == nullptr) return cudaErrorInvalidValue;
    const Allocation* const found = findAllocation(reinterpret_cast<void*>(address));
    for (unsigned i = 0; i < count; ++i) {
      const cudaError_t bad = found == nullptr ? zeroAttribute(to[i], which[i])
                                               : pointerAttribute(to[i], which[i], *found, address);
      // The host's address of device memory is null, where cuPointerGetAttribute() refuses it.
      if (bad != cudaSuccess && which[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER)
        store<void*>(to[i], nullptr);
      else if (bad != cudaSuccess)
        return bad;
    }
    return cudaSuccess;
  });
}

/// The emulation has no messages for a log, so that nothing calls `callback`.
CUresult cuLogsRegisterCallback(CUlogsCallback callback, void*, CUlogsCallbackHandle* to) {
  return driverCall([&] {
    static char* next = nullptr;
    if (callback == nullptr) return cudaErrorInvalidValue;
    const auto handle = reinterpret_cast<CUlogsCallbackHandle>(++next);
    logHandles().insert(handle);
    if (to != nullptr) *to = handle;
    return cudaSuccess;
  });
}
CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle handle) {
  return driverCall(
      [&] { return logHandles().erase(handle) == 1 ? cudaSuccess : cudaErrorInvalidValue; });
}

}  // extern "C"
