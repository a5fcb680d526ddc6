#include "src/nccl/gpu_calls.h"

#include <algorithm>
#include <cstdint>

#include "src/base/check.h"
#include "src/device/any_stream.h"
#include "src/device/cuda.h"
#include "src/nccl/device_pointers.h"

namespace tutti::nccl {
namespace {

/// Null and CUDA's two names mean the default stream of a communicator's own GPU.
bool isDefault(cudaStream_t stream) { return reinterpret_cast<uintptr_t>(stream) <= 2; }

bool isOrdinary(const void* buffer) {
  return buffer && device::placeOf(buffer).kind == device::MemoryPlace::Kind::Host;
}

}  // namespace

Device deviceOfThread() {
  if (device::cudaSupport().devices == 0) return {};
  return {DeviceKind::Cuda, device::currentCudaDevice()};
}

Device deviceNumbered(int index) {
  const int devices = device::cudaSupport().devices;
  if (devices == 0) return {};
  TUTTI_REQUIRE(index < devices, "there is no device ", index, ": this machine has ", devices);
  return {DeviceKind::Cuda, index};
}

StreamRef streamFor(Device device, cudaStream_t stream,
                    std::initializer_list<const void*> buffers) {
  const bool onGpu = device.kind == DeviceKind::Cuda &&
                     (!isDefault(stream) || std::ranges::none_of(buffers, isOrdinary));
  if (device.kind == DeviceKind::Host) {
    requireNoStream(stream);
    requireHostMemory(buffers);
  }
  if (!onGpu) return {};  // buffers that do not go together are told apart by name there
  return isDefault(stream) ? device::AnyStream::cudaRef(stream, device.index)
                           : device::borrowCudaStream(stream);
}

}  // namespace tutti::nccl
