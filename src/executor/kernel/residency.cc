#include "src/executor/kernel/residency.h"

#include <algorithm>
#include <vector>

#include "src/base/check.h"
#include "src/device/cuda.h"
#include "src/executor/kernel/kernels.h"
#include "transports/p2p/owned_memory.h"

namespace tutti::executor::kernel {
namespace {

using device::OnDevice;
using transports::p2p::Wire;

uint32_t blocksOf(int device) {
  OnDevice on(device);
  int processors = 0, least = INT32_MAX;
  TUTTI_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  std::vector<const void*> kernels{exchangeAddress()};
  for (const Wire wire : {Wire::Simple, Wire::LL, Wire::LL128})
    for (const size_t elementBytes : {1, 2, 4, 8})
      kernels.push_back(interpreterAddress(wire, elementBytes));
  for (const void* kernel : kernels) {
    const device::Kernel loaded{"interpret", kernel};
    device::loadKernels({&loaded, 1}, device);
    int each = 0;
    TUTTI_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, kMostThreadsPerBlock,
                                                             kMostSharedBytes));
    least = std::min(least, each);
  }
  return static_cast<uint32_t>(least * processors);
}

}  // namespace

Residency::Room& Residency::room(int device) {
  Room& room = rooms_[device];
  if (room.capacity == 0) room.capacity = blocksOf(device);
  return room;
}

uint32_t Residency::capacity(int device) {
  const std::lock_guard lock(mutex_);
  return room(device).capacity;
}

void Residency::reserve(int device, uint32_t blocks, const std::string& who) {
  const std::lock_guard lock(mutex_);
  Room& here = room(device);
  if (blocks > here.capacity - here.taken)
    base::fail(ErrorCode::InvalidUsage, who, " needs ", blocks, " blocks on device ", device,
               " at the same time as ", here.taken, " of other ranks, and it holds ", here.capacity,
               ": their kernels would wait for each other for ever");
  here.taken += blocks;
}

void Residency::release(int device, uint32_t blocks) {
  const std::lock_guard lock(mutex_);
  room(device).taken -= blocks;
}

}  // namespace tutti::executor::kernel
