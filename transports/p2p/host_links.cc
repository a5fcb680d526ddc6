// Peers on other hosts: the memory that stands for them.

#include "src/base/check.h"
#include "transports/p2p/endpoint.h"

namespace tutti::transports::p2p {

void P2pEndpoint::connectThroughHost(int peer, uint32_t directBytes) {
  TUTTI_ASSERT(peer >= 0 && peer < size_ && peer != rank_ && !isConnected(peer), "rank ", rank_,
               " connects to ", peer, " through the host");
  const HostMemoryLayout offsets(layout_);
  OnDevice on(device_);
  hosted_[peer] = std::make_unique<Hosted>(offsets.totalBytes());
  if (directBytes != kNoMessage) {
    hosted_[peer]->directBytes = directBytes;
    hosted_[peer]->direct = std::make_shared<DeviceMemory>(device_, offsets.directBytes());
  }
  for (int channel = 0; channel < layout_.rings.channels; ++channel) {
    const P2pLink link = hostLink(peer, channel);
    *link.credit = *link.peerCredit = firstMessage_;
  }
  reasons_[peer].clear();
  publish();
}

P2pLink P2pEndpoint::hostLink(int peer, int channel) const {
  const HostMemoryLayout offsets(layout_);
  const Hosted& hosted = *hosted_[peer];
  unsigned char* const memory = hosted.memory.data();
  unsigned char* const direct = hosted.direct ? hosted.direct->data() : nullptr;
  return {.sendSlots = memory + offsets.sendSlots(channel),
          .receiveSlots = memory + offsets.receiveSlots(channel),
          .credit = reinterpret_cast<uint32_t*>(memory + offsets.credit(channel)),
          .peerCredit = reinterpret_cast<uint32_t*>(memory + offsets.peerCredit(channel)),
          .sent = firstMessage_,
          .received = firstMessage_,
          .leavesHost = 1,
          .directBytes = hosted.directBytes,
          .directSendSlots = direct ? direct + offsets.directSendSlots(channel) : nullptr,
          .directReceiveSlots = direct ? direct + offsets.directReceiveSlots(channel) : nullptr};
}

uint32_t* P2pEndpoint::hostPoison(int peer) const {
  return reinterpret_cast<uint32_t*>(hosted_[peer]->memory.data() +
                                     HostMemoryLayout(layout_).poison());
}

}  // namespace tutti::transports::p2p
