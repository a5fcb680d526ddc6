#pragma once

// Work for one stream: copies, and stream memory operations, of which neighbours are handed over
// together. Nothing here waits for the stream.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::executor::copy {

/// Rows of bytes, each so far behind the one before.
struct CopyRows {
  const void* from;
  void* to;
  uint64_t bytes, fromPitch, toPitch, count;
};

class StreamQueue {
 public:
  /// `waitFlags`: waitFlagsOf() the device, which is current whenever something is enqueued.
  StreamQueue(cudaStream_t stream, unsigned waitFlags);

  /// Into memory of this device, or of the host, behind all that was enqueued before.
  void write(uint32_t* at, uint32_t value);
  /// Until the word, in such memory, is `least` or more, cyclic.
  void awaitAtLeast(const uint32_t* at, uint32_t least);
  /// To or from any memory that the device can address. Nothing where both are one.
  void copy(void* to, const void* from, uint64_t bytes);
  void copyRows(const CopyRows& rows);
  /// Hands over what is held back. The stream, for work of other kinds.
  cudaStream_t flush();

 private:
  void add(const CUstreamBatchMemOpParams& one);
  cudaStream_t stream_;
  unsigned waitFlags_;
  std::vector<CUstreamBatchMemOpParams> batch_;
};

/// Of waits of a device: that which makes other devices' writes visible, where it is needed and
/// there is one. Throws Unsupported where the driver has no stream memory operations.
unsigned waitFlagsOf(int device);

}  // namespace tutti::executor::copy
