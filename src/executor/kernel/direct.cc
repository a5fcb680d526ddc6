#include "src/executor/kernel/direct.h"

#include "src/base/check.h"

namespace tutti::executor::kernel {

void goDirect(const transports::p2p::P2pEndpoint& endpoint, transports::Endpoint& remote,
              int peer) {
  const transports::RingLayout& rings = endpoint.layout().rings;
  for (int channel = 0; channel < rings.channels; ++channel) {
    const auto link = endpoint.hostLink(peer, channel);
    if (link.directBytes == transports::p2p::kNoMessage) return;
    TUTTI_REQUIRE(link.directBytes > kLeastTravel, "payloads of ", link.directBytes,
                  " bytes in memory of a device: more than ", kLeastTravel, " are possible");
    const transports::DirectSlots slots{
        .first = reinterpret_cast<std::byte*>(link.directReceiveSlots + transports::p2p::kLine),
        .strideBytes = slotStride(transports::p2p::Wire::Simple, rings.slotBytes),
        .leastBytes = link.directBytes,
        .memory = endpoint.directMemory(peer),
        .enter = [device = endpoint.device()] { cudaSetDevice(device); }};
    TUTTI_REQUIRE(remote.goDirect(peer, channel, slots), remote.name(peer), ", which joins rank ",
                  endpoint.rank(), " with rank ", peer, ", does not reach memory of devices");
  }
}

Arrivals::Arrivals(int device) {
  int ordering = 0, options = 0;
  TUTTI_CUDA(cudaDeviceGetAttribute(&ordering, cudaDevAttrGPUDirectRDMAWritesOrdering, device));
  TUTTI_CUDA(cudaDeviceGetAttribute(&options, cudaDevAttrGPUDirectRDMAFlushWritesOptions, device));
  mustFlush_ = ordering < cudaGPUDirectRDMAWritesOrderingOwner &&
               (options & cudaFlushGPUDirectRDMAWritesOptionHost) != 0;
}

void Arrivals::flush() const {
  if (mustFlush_)
    TUTTI_CUDA(cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                                  cudaFlushGPUDirectRDMAWritesToOwner));
}

}  // namespace tutti::executor::kernel
