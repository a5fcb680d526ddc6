#include "src/executor/kernel/wires.h"

#include <cuda_runtime_api.h>

#include "src/device/cuda/check.h"

namespace tutti::executor::kernel {

using transports::p2p::Wire;

Wire wireFor(uint64_t bytes, bool isMapped, bool keepsLines) {
  if (isMapped) return Wire::Simple;  // whose messages are signals
  if (bytes <= kMostBytesByLL) return Wire::LL;
  return keepsLines && bytes <= kMostBytesByLL128 ? Wire::LL128 : Wire::Simple;
}

bool linesArriveWhole(std::span<const int> devices) {
  for (const int from : devices)
    for (const int to : devices) {
      if (from == to) continue;
      int native = 0;
      TUTTI_CUDA(cudaDeviceGetP2PAttribute(&native, cudaDevP2PAttrNativeAtomicSupported, from, to));
      if (native == 0) return false;
    }
  return true;
}

}  // namespace tutti::executor::kernel
