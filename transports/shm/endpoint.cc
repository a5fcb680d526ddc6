#include "transports/shm/endpoint.h"

#include <cerrno>
#include <optional>
#include <vector>

#include "src/base/check.h"
#include "src/base/env.h"
#include "transports/ring_layout.h"
#include "transports/shm/address.h"
#include "transports/shm/layout.h"
#include "transports/shm/memory_limits.h"
#include "transports/shm/peer_memory.h"
#include "transports/shm/process_inboxes.h"
#include "transports/shm/segment.h"

namespace tutti::transports::shm {
namespace {

/// All ranks of the host together: refused before the first of them has taken anything.
void requireCapacity(int size, const RingLayout& layout) {
  const auto capacity = memoryCapacity();
  const uint64_t inbox = inboxBytes(size, layout);
  const auto ranks = static_cast<uint64_t>(size);
  if (capacity && inbox > capacity->bytes / ranks)
    base::fail(ErrorCode::OutOfMemory, size, " ranks of one host need ", inbox,
               " bytes of shared memory each, and ", capacity->within, " has ", capacity->bytes,
               " for all of them: use fewer ranks, or a smaller TUTTI_SLOT_BYTES");
}

class ShmEndpoint final : public Endpoint {
 public:
  ShmEndpoint(int rank, int size, const RingLayout& layout)
      : rank_(rank), size_(size), layout_(layout), peers_(static_cast<size_t>(size)) {
    if (size == 1) return;
    requireCapacity(size, layout);
    inbox_ = std::make_shared<Segment>(Segment::create(
        inboxBytes(size, layout), base::message("the inbox of rank ", rank, " of ", size, " (",
                                                describe(layout), ", TUTTI_SLOT_BYTES)")));
    number_ = registerInbox(inbox_, rank);
    if (base::env().shmAttach) nonce_.emplace();
  }

  const char* name(int) const override { return "shm"; }
  bool isMemory(int) const override { return true; }
  const RingLayout& layout() const override { return layout_; }
  uint64_t memoryBytes() const override { return inbox_ ? inbox_->bytes() : 0; }

  EndpointAddress address(int peer) override {
    requirePeer(peer);
    const ShmAddressBlob blob{rank_,
                              peer,
                              size_,
                              layout_,
                              processToken(),
                              number_,
                              nonce_ ? nonce_->place() : NoncePlace{}};
    EndpointAddress address{blob.write(), {}};
    address.descriptors.push_back(inbox_->duplicate());
    return address;
  }

  void connect(int peer, EndpointAddress address) override {
    requirePeer(peer);
    if (connected(peer))
      base::fail(ErrorCode::InvalidUsage, "rank ", rank_, " is connected to rank ", peer);
    const ShmAddressBlob blob = ShmAddressBlob::read(address.blob);
    check(peer, blob);
    Peer& p = peers_[static_cast<size_t>(peer)];
    std::byte* theirs = nullptr;
    if (blob.token == processToken()) {
      p.inbox = findInbox(blob.inbox, peer);
      if (!p.inbox || p.inbox->bytes() != inboxBytes(size_, layout_))
        base::fail(ErrorCode::Refused, "rank ", peer, " of this process has no inbox ", blob.inbox);
      theirs = p.inbox->data() + blockOffset(peer, rank_, layout_);
    } else {
      p.block = openBlock(peer, std::move(address.descriptors));
      theirs = p.block.data();
    }
    if (nonce_) p.memory.emplace(blob.nonce);
    if (p.memory && !p.memory->isReadable()) p.memory.reset();
    makeRings(p, inbox_->data() + blockOffset(rank_, peer, layout_), theirs);
  }

  SendRing& sendRing(int peer, int channel) override { return rings(peer, channel).send; }
  ReceiveRing& receiveRing(int peer, int channel) override { return rings(peer, channel).receive; }
  bool goDirect(int, int, const DirectSlots&) override { return false; }
  bool progress() override { return false; }  // stores move everything
  void flush() override {}
  void drain(const std::function<bool()>&) override {}
  bool cancelZeroCopy() override {
    for (const Peer& p : peers_)
      if (p.ownFailed) p.ownFailed->exchange(1);
    if (nonce_) nonce_->erase();
    return true;
  }
  // No load of the copy may come behind that of the word.
  bool memoryCounts(int peer) const override {
    std::atomic<uint32_t>* const hasFailed = peers_[static_cast<size_t>(peer)].hasFailed;
    if (!hasFailed) return true;
    __sync_synchronize();  // GCC has no std::atomic_thread_fence where ThreadSanitizer is on
    return hasFailed->load(std::memory_order_acquire) == 0;
  }
  base::SleepPlace* sleepPlace() override {
    const size_t count = sleepPlace_.words.size();
    return count > 0 && count <= base::kMostSleepWords ? &sleepPlace_ : nullptr;
  }
  bool readsMemory(int peer) const override {
    return peers_[static_cast<size_t>(peer)].memory.has_value();
  }
  int readMemory(int peer, uint64_t address, std::byte* to, size_t bytes) override {
    const auto& memory = peers_[static_cast<size_t>(peer)].memory;
    return memory ? memory->read(address, to, bytes) : EPERM;
  }
  bool isReadableByPeers(const std::byte* data, size_t bytes) const override {
    return nonce_ && shm::isReadableByPeers(data, bytes);
  }

 private:
  struct Rings {
    SendRing send;
    ReceiveRing receive;
  };
  struct Peer {
    std::shared_ptr<Segment> inbox;    // the peer's whole inbox, when it lives in this process
    Segment block;                     // our block of it, mapped, when it does not
    std::optional<PeerMemory> memory;  // if this rank can read it
    std::vector<Rings> rings;          // by channel; empty until connected
    std::atomic<uint32_t>*ownFailed = nullptr, *hasFailed = nullptr;  // null until connected
  };

  /// On a word in each peer's block.
  struct ShmSleepPlace final : base::SleepPlace {
    void announce() override {
      for (base::SleepWord* word : words) word->store(1);
    }
    void sleep(std::chrono::nanoseconds most) override {
      base::sleepOn(words, most);
      for (base::SleepWord* word : words) word->store(0, std::memory_order_relaxed);
    }
    std::vector<base::SleepWord*> words;
  };

  bool connected(int peer) const { return !peers_[static_cast<size_t>(peer)].rings.empty(); }

  void requirePeer(int peer) const {
    TUTTI_REQUIRE(peer >= 0 && peer < size_ && peer != rank_, "rank ", rank_, " of ", size_,
                  " has no peer ", peer);
  }

  Rings& rings(int peer, int channel) {
    TUTTI_ASSERT(static_cast<size_t>(peer) < peers_.size(), "rank ", rank_, " has no peer ", peer);
    auto& all = peers_[static_cast<size_t>(peer)].rings;
    TUTTI_ASSERT(static_cast<size_t>(channel) < all.size(), "rank ", rank_,
                 " has no ring for peer ", peer, " and channel ", channel, "; is it connected?");
    return all[static_cast<size_t>(channel)];
  }

  void check(int peer, const ShmAddressBlob& blob) const {
    if (blob.from != peer || blob.to != rank_ || blob.size != size_)
      base::fail(ErrorCode::Refused, "an address from rank ", blob.from, " for rank ", blob.to,
                 " of ", blob.size, " came as that of rank ", peer, " for rank ", rank_, " of ",
                 size_);
    requireSameLayout(peer, blob.layout, rank_, layout_);
  }

  Segment openBlock(int peer, std::vector<base::FileDescriptor> descriptors) const {
    if (descriptors.size() != 1)
      base::fail(ErrorCode::Refused, "the address of rank ", peer, " came with ",
                 descriptors.size(), " descriptors, not 1");
    return Segment::open(std::move(descriptors[0]), inboxBytes(size_, layout_),
                         {blockOffset(peer, rank_, layout_), blockBytes(layout_)});
  }

  void makeRings(Peer& p, std::byte* ours, std::byte* theirs) {
    const auto memory = [&](std::byte* receiver, std::byte* sender, int channel) {
      return RingMemory{.slots = slotsIn(receiver, channel, layout_),
                        .credit = creditIn(sender, channel),
                        .slotCount = layout_.slotCount,
                        .strideBytes = slotStride(layout_.slotBytes),
                        .sleeper = sleepWordIn(theirs),
                        .spreadMask = spreadBytes(layout_) - 1};
    };
    p.ownFailed = failedIn(theirs);
    p.hasFailed = failedIn(ours);
    sleepPlace_.words.push_back(sleepWordIn(ours));
    for (int c = 0; c < layout_.channels; ++c)
      p.rings.push_back({SendRing(memory(theirs, ours, c)), ReceiveRing(memory(ours, theirs, c))});
  }

  const int rank_, size_;
  const RingLayout layout_;
  std::shared_ptr<Segment> inbox_;
  uint64_t number_ = 0;
  std::optional<Nonce> nonce_;  // nothing: peers do not read this rank's memory
  std::vector<Peer> peers_;     // by rank; our own stays empty
  ShmSleepPlace sleepPlace_;
};

}  // namespace

std::unique_ptr<Endpoint> makeShmEndpoint(int rank, int size, const RingLayout& layout) {
  TUTTI_REQUIRE(size >= 1 && rank >= 0 && rank < size, "rank ", rank, " of ", size);
  requireLayout(layout);
  return std::make_unique<ShmEndpoint>(rank, size, layout);
}

}  // namespace tutti::transports::shm
