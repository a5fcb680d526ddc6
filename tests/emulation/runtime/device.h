#pragma once

// The devices of the stand-in: as many as TUTTI_EMULATION_DEVICES says, all of them alike and
// joined by links over which each reaches the memory of each. A process may have some of them
// alone, in another order: its numbers for them are its own.

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <optional>
#include <set>

#include "tests/emulation/emulation.h"

namespace tutti::emulation {

constexpr const char* kDeviceName = "Tutti emulated sm_90";
constexpr int kThreadsPerProcessor = 2048;
constexpr int kBlocksPerProcessor = 32;
constexpr size_t kSharedBytesPerProcessor = 228 << 10;
constexpr size_t kReservedSharedBytes = 1 << 10;  // of each block
constexpr size_t kDefaultSharedBytes = 48 << 10;
/// What one multiprocessor has of a Room.
constexpr uint64_t kRoomOfProcessor = 1 << 20;

struct Device {
  std::atomic<cudaError_t> fault{cudaSuccess};  // of a kernel; all calls return it from then on
  std::set<int> peers;                          // devices whose memory kernels here may touch
  std::shared_ptr<Room> room;
  size_t usedBytes = 0;
  size_t limits[7] = {1024, 1 << 20, 8 << 20, 0, 2048, 64, 0};  // by cudaLimit
  cudaStream_t legacy = nullptr;
  cudaMemPool_t defaultPool = nullptr, pool = nullptr;
  bool isActive = false;             // its primary context has been made
  unsigned flags = 0;                // cudaSetDeviceFlags()
  std::atomic<uint64_t> flushes{0};  // cudaDeviceFlushGPUDirectRDMAWrites()
};

int deviceCount();
int processorsPerDevice();
size_t bytesPerDevice();
bool isDevice(int index);
Device& deviceAt(int index);
/// Of the calling thread: that of its current context, or without one what cudaSetDevice() said
/// last.
int currentDevice();
/// Makes its context current.
void setCurrentDevice(int index);
/// Whether the thread has a current context.
bool hasContext();
/// From now on it has none, until it calls the runtime.
void detachContext();
cudaError_t faultOf(int device);
/// In the machine: which of all devices it is, for other processes.
int placeOf(int device);
/// Nothing where this process does not have it.
std::optional<int> deviceOfPlace(int place);
int busOf(int device);           // of PCI
std::string uuidOf(int device);  // its 16 bytes
/// By number of CUdevice_attribute, which has that of cudaDeviceAttr where both have it; nothing
/// where there is no such attribute.
std::optional<int> attributeOf(int which, int device);

/// As if a kernel on the device had faulted: from now on calls there return `error`, for ever. For
/// tests of code that must bear it; a fault that the emulation finds itself ends the process.
void injectFault(int device, cudaError_t error);

}  // namespace tutti::emulation
