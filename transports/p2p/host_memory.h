#pragma once

// Memory of the host that processes share and that kernels and copies of all devices can touch. Two
// GPUs that do not reach each other's memory exchange messages there.

#include <memory>
#include <string>

#include "src/base/file_descriptor.h"
#include "transports/shm/segment.h"

namespace tutti::transports::p2p {

class HostMemory {
 public:
  /// All zero. Throws OutOfMemory naming bytes and purpose, System where CUDA refuses.
  static std::shared_ptr<HostMemory> create(int device, uint64_t bytes, const std::string& purpose);
  /// What another process has made, of as many bytes. Throws Refused where it is not that.
  static std::shared_ptr<HostMemory> open(int device, const base::FileDescriptor& exported,
                                          uint64_t bytes);
  /// Takes over what create() or open() has mapped.
  HostMemory(int device, shm::Segment segment);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  /// As devices see it.
  unsigned char* data() const { return data_; }
  /// The same for the host.
  unsigned char* hostData() const { return reinterpret_cast<unsigned char*>(segment_.data()); }
  uint64_t bytes() const { return segment_.bytes(); }
  /// For another process. Only of what create() has made.
  base::FileDescriptor exported() const { return segment_.duplicate(); }

 private:
  const shm::Segment segment_;
  unsigned char* data_ = nullptr;
};

}  // namespace tutti::transports::p2p
