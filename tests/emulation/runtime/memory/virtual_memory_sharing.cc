// Physical memory of other processes, as files.

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/memory/allocating_calls.h"
#include "tests/emulation/runtime/memory/multicast.h"
#include "tests/emulation/runtime/memory/virtual_memory.h"

namespace tutti::emulation {
namespace {

/// The device's place in a file's name; below 0 where the file is no physical memory.
int placeOfFile(int file) {
  char name[256] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  if (readlink(link.c_str(), name, sizeof name - 1) < 0) return -1;
  const std::string text = name;
  const size_t at = text.find(kPhysicalName);
  return at == std::string::npos ? -1 : std::atoi(text.c_str() + at + kPhysicalName.size());
}

}  // namespace
}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

CUresult cuMemExportToShareableHandle(void* to, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  return driverCall([&] {
    const Physical* const physical = physicalOf(handle);
    if (to == nullptr || physical == nullptr || flags != 0) return cudaErrorInvalidValue;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return cudaErrorNotSupported;
    if ((physical->properties.requestedHandleTypes & type) == 0) return cudaErrorInvalidValue;
    *static_cast<int*>(to) = dup(physical->file);
    return cudaSuccess;
  });
}

/// The descriptor is the caller's as before. Memory of a device that this process does not have is
/// as the current one's.
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* to, void* handle,
                                        CUmemAllocationHandleType type) {
  noteAllocatingCall();
  return driverCall([&] {
    if (to == nullptr) return cudaErrorInvalidValue;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return cudaErrorNotSupported;
    const int file = static_cast<int>(reinterpret_cast<intptr_t>(handle));
    struct stat status {};
    if (fstat(file, &status) != 0) return cudaErrorInvalidValue;
    auto made = std::make_unique<Physical>();
    made->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    made->properties.requestedHandleTypes = type;
    made->properties.location = {CU_MEM_LOCATION_TYPE_DEVICE,
                                 deviceOfPlace(placeOfFile(file)).value_or(currentDevice())};
    made->place = placeOfFile(file) < 0 ? placeOf(currentDevice()) : placeOfFile(file);
    made->isImported = true;
    made->bytes = size_t(status.st_size);
    made->multicast = openMulticast(file, made->bytes);
    if (made->multicast == nullptr && placeOfFile(file) < 0) return cudaErrorInvalidValue;
    made->file = dup(file);
    *to = keepPhysical(made.release());
    return cudaSuccess;
  });
}

}  // extern "C"
