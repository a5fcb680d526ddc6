#include "src/executor/copy/stream_queue.h"

#include <cuda.h>

#include "src/device/cuda/check.h"
#include "src/device/cuda/driver.h"

namespace tutti::executor::copy {
namespace {

/// cuStreamBatchMemOp() takes fewer than 256.
constexpr uint32_t kMostInBatch = 255;

using BatchFunction = decltype(::cuStreamBatchMemOp);

/// With the arguments, and without asking for the kernel module's leave, since
/// CUDA 11.7.
BatchFunction* batchFunction() {
  static BatchFunction* const found =
      device::driverFunction<BatchFunction>("cuStreamBatchMemOp", 11070);
  return found;
}

CUdeviceptr addressOf(const void* word) { return reinterpret_cast<CUdeviceptr>(word); }

}  // namespace

StreamQueue::StreamQueue(cudaStream_t stream, unsigned waitFlags)
    : stream_(stream), waitFlags_(waitFlags) {
  batch_.reserve(kMostInBatch);
}

void StreamQueue::add(const CUstreamBatchMemOpParams& one) {
  if (batch_.size() == kMostInBatch) flush();
  batch_.push_back(one);
}

void StreamQueue::write(uint32_t* at, uint32_t value) {
  CUstreamBatchMemOpParams one{};
  one.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  one.writeValue.address = addressOf(at);
  one.writeValue.value = value;
  add(one);
}

void StreamQueue::awaitAtLeast(const uint32_t* at, uint32_t least) {
  CUstreamBatchMemOpParams one{};
  one.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  one.waitValue.address = addressOf(at);
  one.waitValue.value = least;
  one.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ | waitFlags_;
  add(one);
}

void StreamQueue::copy(void* to, const void* from, uint64_t bytes) {
  if (bytes == 0 || to == from) return;
  TUTTI_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, flush()));
}

void StreamQueue::copyRows(const CopyRows& rows) {
  if (rows.count == 1) return copy(rows.to, rows.from, rows.bytes);
  TUTTI_CUDA(cudaMemcpy2DAsync(rows.to, rows.toPitch, rows.from, rows.fromPitch, rows.bytes,
                               rows.count, cudaMemcpyDefault, flush()));
}

cudaStream_t StreamQueue::flush() {
  if (!batch_.empty())
    TUTTI_CUDA(batchFunction()(stream_, static_cast<unsigned>(batch_.size()), batch_.data(), 0));
  batch_.clear();
  return stream_;
}

// Writes of another GPU arrive in order, and the one that is waited for may overtake what is before
// it inside of this one: then the wait has to flush, on platforms where the driver says that it
// can. On the others there is nothing to flush, and asking for it is an error.
unsigned waitFlagsOf(int device) {
  batchFunction();  // is found now or never
  int flushes = 0;
  TUTTI_CUDA(cudaDeviceGetAttribute(&flushes, cudaDevAttrCanFlushRemoteWrites, device));
  return flushes != 0 ? CU_STREAM_WAIT_VALUE_FLUSH : 0;
}

}  // namespace tutti::executor::copy
