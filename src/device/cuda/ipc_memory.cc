#include "src/device/cuda/ipc_memory.h"

#include <cuda.h>

#include <cstring>
#include <utility>

#include <tutti/device.h>

#include "src/base/bytes.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/device/cuda.h"
#include "src/device/cuda/check.h"
#include "src/device/cuda/driver.h"
#include "src/device/cuda/guards.h"

namespace tutti::device {

cudaIpcMemHandle_t IpcMemory::handleOf(const void* data) {
  const OutsideCapture relaxed;
  cudaIpcMemHandle_t handle{};
  TUTTI_CUDA(cudaIpcGetMemHandle(&handle, const_cast<void*>(data)));
  return handle;
}

IpcMemory IpcMemory::open(const cudaIpcMemHandle_t& handle, int device) {
  const OnDevice here(device);
  const OutsideCapture relaxed;
  IpcMemory memory;
  memory.device_ = device;
  TUTTI_CUDA(cudaIpcOpenMemHandle(&memory.data_, handle, cudaIpcMemLazyEnablePeerAccess));
  return memory;
}

IpcMemory::~IpcMemory() {
  if (!data_ || guard_.inForkedChild()) return;
  try {
    const OnDevice here(device_);
    const OutsideCapture relaxed;
    const cudaError_t error = cudaIpcCloseMemHandle(data_);
    if (error != cudaSuccess && error != cudaErrorCudartUnloading)
      base::log(LogLevel::Error, "memory of another process was not given back: ", describe(error));
  } catch (const std::exception& e) {
    base::log(LogLevel::Error, "memory of another process was not given back: ", e.what());
  }
}

IpcMemory::IpcMemory(IpcMemory&& other) noexcept
    : guard_(other.guard_), device_(other.device_), data_(std::exchange(other.data_, nullptr)) {}

IpcMemory& IpcMemory::operator=(IpcMemory&& other) noexcept {
  std::swap(guard_, other.guard_);
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  return *this;
}

namespace {

template <class T>
T attributeOf(const void* data, CUpointer_attribute attribute) {
  static const auto ask =
      driverFunction<decltype(::cuPointerGetAttribute)>("cuPointerGetAttribute", 4000);
  T value{};
  TUTTI_CUDA(ask(&value, attribute, reinterpret_cast<CUdeviceptr>(data)));
  return value;
}

}  // namespace

base::Bytes exportMemory(const void* data, int device) {
  const OnDevice here(device);
  const OutsideCapture relaxed;
  if (attributeOf<int>(data, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) == 0) return {};
  const auto start = attributeOf<CUdeviceptr>(data, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
  return base::ByteWriter()
      .put(static_cast<uint64_t>(reinterpret_cast<CUdeviceptr>(data) - start))
      .put(base::bytesOf(IpcMemory::handleOf(data)))
      .take();
}

std::shared_ptr<std::byte> openMemory(const base::Bytes& exported, uint64_t bytes, int device) {
  base::ByteReader in(exported);
  const auto offset = in.get<uint64_t>("offset in the memory");
  const base::Bytes image = in.getBytes("handle of the memory", sizeof(cudaIpcMemHandle_t));
  in.requireEnd();
  if (image.size() != sizeof(cudaIpcMemHandle_t))
    base::fail(ErrorCode::Refused, "a handle of memory has ", image.size(), " bytes");
  cudaIpcMemHandle_t handle;
  std::memcpy(&handle, image.data(), sizeof handle);
  const auto memory = std::make_shared<IpcMemory>(IpcMemory::open(handle, device));
  const auto size = attributeOf<size_t>(memory->data(), CU_POINTER_ATTRIBUTE_RANGE_SIZE);
  if (offset > size || bytes > size - offset)
    base::fail(ErrorCode::Refused, bytes, " bytes at ", offset, " of memory that has ", size);
  return {memory, static_cast<std::byte*>(memory->data()) + offset};
}

}  // namespace tutti::device
