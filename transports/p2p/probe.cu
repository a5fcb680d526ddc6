// launchProbe() of probe.h: by nvcc for a GPU, by g++ for the emulation.

#include <tutti/cuda/launch.h>

#include "transports/p2p/probe_device.cuh"

namespace tutti::transports::p2p {

cudaError_t launchProbe(const ProbeArguments& arguments, cudaStream_t stream) {
  return ::tutti::cuda::launch(
      probePeers, {.grid = dim3(arguments.ranks), .block = dim3(kProbeThreads), .stream = stream},
      arguments);
}

const void* probeAddress() { return reinterpret_cast<const void*>(&probePeers); }

}  // namespace tutti::transports::p2p
