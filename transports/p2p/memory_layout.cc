#include "transports/p2p/memory_layout.h"

#include "src/base/check.h"
#include "transports/ring_layout.h"

namespace tutti::transports::p2p {

const char* toString(Wire wire) {
  switch (wire) {
    case Wire::Simple: return "simple";
    case Wire::LL: return "ll";
    case Wire::LL128: return "ll128";
  }
  return "unknown";
}

MemoryLayout::MemoryLayout(const P2pLayout& layout, int ranks) : layout_(layout), ranks_(ranks) {
  requireLayout(layout.rings);
  TUTTI_REQUIRE(ranks >= 1 && ranks <= 1 << 16, ranks, " ranks");
  TUTTI_REQUIRE(layout.lowLatencyBytes >= kLineBytes && layout.lowLatencyBytes % kLineBytes == 0 &&
                    layout.lowLatencyBytes <= layout.rings.slotBytes,
                "messages of ", layout.lowLatencyBytes, " bytes by LL: a multiple of ", kLineBytes,
                " up to the slots' ", layout.rings.slotBytes, " is possible");
  const auto links = static_cast<size_t>(layout.rings.channels) * static_cast<size_t>(ranks);
  size_t at = entries(0) + static_cast<size_t>(ranks) * kLine;
  credits_ = at;
  at += kWireCount * links * kLine;
  probes_ = at;
  at += static_cast<size_t>(ranks) * (kLine + kProbeBytes);
  for (int wire = 0; wire < kWireCount; ++wire) {
    slots_[wire] = at;
    const auto w = static_cast<Wire>(wire);
    // Slots of whole lines, since those of LL128 are read by line.
    at += links * layout.rings.slotCount * slotStride(w, layout.slotBytes(w));
  }
  total_ = at;
  if (layout.copySlotBytes > 0) addCopies(links);
}

void MemoryLayout::addCopies(size_t links) {
  const uint32_t slots = layout_.rings.slotCount;
  TUTTI_REQUIRE(layout_.copySlotBytes % kLine == 0 && layout_.copySlotBytes <= kMaxSlotBytes &&
                    slots <= kMostCopySlots,
                slots, " slots of ", layout_.copySlotBytes, " bytes for copies: up to ",
                kMostCopySlots, " of a multiple of ", kLine, " up to ", kMaxSlotBytes,
                " are possible");
  copyWords_ = total_;
  copyMarks_ = copyWords_ + (1 + static_cast<size_t>(ranks_)) * kLine;
  copyCredits_ = copyMarks_ + links * slots * sizeof(CopyMark);
  copySlots_ = (copyCredits_ + links * slots * sizeof(uint32_t) + kLine - 1) / kLine * kLine;
  total_ = copySlots_ + links * slots * layout_.copySlotBytes;
}

size_t MemoryLayout::index(int channel, int peer) const {
  TUTTI_ASSERT(channel >= 0 && channel < layout_.rings.channels && peer >= 0 && peer < ranks_,
               "channel ", channel, " to rank ", peer);
  return static_cast<size_t>(channel) * static_cast<size_t>(ranks_) + static_cast<size_t>(peer);
}

size_t MemoryLayout::entries(int peer) const { return (1 + static_cast<size_t>(peer)) * kLine; }

size_t MemoryLayout::credit(Wire wire, int channel, int peer) const {
  const size_t links = static_cast<size_t>(layout_.rings.channels) * static_cast<size_t>(ranks_);
  return credits_ + (static_cast<size_t>(wire) * links + index(channel, peer)) * kLine;
}

size_t MemoryLayout::slots(Wire wire, int channel, int peer) const {
  return slots_[static_cast<int>(wire)] +
         index(channel, peer) * layout_.rings.slotCount * slotStride(wire, layout_.slotBytes(wire));
}

size_t MemoryLayout::copyIndex(int channel, int peer, uint32_t slot) const {
  TUTTI_ASSERT(layout_.copySlotBytes > 0 && slot < layout_.rings.slotCount, "slot ", slot,
               " for copies");
  return index(channel, peer) * layout_.rings.slotCount + slot;
}

size_t MemoryLayout::copyPoison() const { return copyWords_; }

size_t MemoryLayout::copyNotice(int peer) const {
  return copyWords_ + (1 + static_cast<size_t>(peer)) * kLine;
}

size_t MemoryLayout::copyMark(int channel, int peer, uint32_t slot) const {
  return copyMarks_ + copyIndex(channel, peer, slot) * sizeof(CopyMark);
}

size_t MemoryLayout::copyCredit(int channel, int peer, uint32_t slot) const {
  return copyCredits_ + copyIndex(channel, peer, slot) * sizeof(uint32_t);
}

size_t MemoryLayout::copySlot(int channel, int peer, uint32_t slot) const {
  return copySlots_ + copyIndex(channel, peer, slot) * layout_.copySlotBytes;
}

size_t MemoryLayout::probe(int peer) const {
  return probes_ + static_cast<size_t>(peer) * (kLine + kProbeBytes);
}

HostMemoryLayout::HostMemoryLayout(const P2pLayout& layout)
    : channels_(layout.rings.channels),
      ringBytes_(layout.rings.slotCount * slotStride(Wire::Simple, layout.rings.slotBytes)) {}

size_t HostMemoryLayout::credit(int channel) const {
  return (1 + 2 * static_cast<size_t>(channel)) * kLine;
}

size_t HostMemoryLayout::peerCredit(int channel) const { return credit(channel) + kLine; }

size_t HostMemoryLayout::sendSlots(int channel) const {
  return credit(channels_) + 2 * static_cast<size_t>(channel) * ringBytes_;
}

size_t HostMemoryLayout::receiveSlots(int channel) const { return sendSlots(channel) + ringBytes_; }

size_t HostMemoryLayout::totalBytes() const { return sendSlots(channels_); }

}  // namespace tutti::transports::p2p
