#include "transports/p2p/host_memory.h"

#include <cuda_runtime_api.h>
#include <fcntl.h>

#include <utility>

#include "src/base/check.h"
#include "src/device/cuda/check.h"
#include "src/device/cuda/guards.h"

namespace tutti::transports::p2p {

std::shared_ptr<HostMemory> HostMemory::create(int device, uint64_t bytes,
                                               const std::string& purpose) {
  return std::make_shared<HostMemory>(device, shm::Segment::create(bytes, purpose));
}

std::shared_ptr<HostMemory> HostMemory::open(int device, const base::FileDescriptor& exported,
                                             uint64_t bytes) {
  base::FileDescriptor own(::fcntl(exported.get(), F_DUPFD_CLOEXEC, 0));
  TUTTI_SYSCALL(own.get());
  return std::make_shared<HostMemory>(device, shm::Segment::open(std::move(own), bytes));
}

HostMemory::HostMemory(int device, shm::Segment segment) : segment_(std::move(segment)) {
  const device::OnDevice on(device);
  TUTTI_CUDA(cudaHostRegister(segment_.data(), segment_.bytes(),
                              cudaHostRegisterPortable | cudaHostRegisterMapped));
  void* data = nullptr;
  const cudaError_t error = cudaHostGetDevicePointer(&data, segment_.data(), 0);
  if (error != cudaSuccess) cudaHostUnregister(segment_.data());
  TUTTI_CUDA(error);
  data_ = static_cast<unsigned char*>(data);
}

HostMemory::~HostMemory() { cudaHostUnregister(segment_.data()); }

}  // namespace tutti::transports::p2p
