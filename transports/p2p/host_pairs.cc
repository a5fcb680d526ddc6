// Peers of this host that do not reach each other's devices: the memory of the host that joins
// them.

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "transports/p2p/endpoint.h"
#include "transports/p2p/live_memory.h"

namespace tutti::transports::p2p {
namespace {

LiveMemory<HostMemory>& liveHostMemory() {
  static auto& all = *new LiveMemory<HostMemory>;
  return all;
}

/// Throws InvalidArgument where the rank is not there.
int placeOf(int rank, const std::vector<int>& peers) {
  const auto found = std::ranges::find(peers, rank);
  TUTTI_REQUIRE(found != peers.end(), "rank ", rank, " is not joined by memory of the host");
  return static_cast<int>(found - peers.begin());
}

struct HostAddress {
  int64_t process = 0;
  uint64_t token = 0;
  int32_t rank = 0;
  std::vector<int> peers;
  uint64_t start = 0, bytes = 0;
};

HostAddress read(const base::Bytes& address, int size) {
  base::ByteReader in(address);
  HostAddress its;
  its.process = in.get<int64_t>("process");
  its.token = in.get<uint64_t>("token of the process");
  its.rank = in.get<int32_t>("rank");
  const auto count = in.get<uint32_t>("number of peers");
  if (count > static_cast<uint32_t>(size))
    base::fail(ErrorCode::Refused, "memory of the host for ", count, " peers of ", size);
  for (uint32_t i = 0; i < count; ++i) its.peers.push_back(in.get<int32_t>("peer"));
  its.start = in.get<uint64_t>("memory of the host");
  its.bytes = in.get<uint64_t>("bytes of the memory of the host");
  in.requireEnd();
  return its;
}

}  // namespace

void P2pEndpoint::openHostMemory(std::vector<int> peers) {
  TUTTI_ASSERT(!inbox_ && !peers.empty(), "rank ", rank_, " opens memory of the host");
  MemoryLayout offsets(layout_, static_cast<int>(peers.size()));
  auto memory = HostMemory::create(
      device_, offsets.totalBytes(),
      base::message("messages to rank ", rank_, " from ", peers.size(),
                    peers.size() == 1 ? " rank" : " ranks", " whose GPUs do not reach its own"));
  for (int wire = 0; wire < kWireCount; ++wire)
    for (int channel = 0; channel < layout_.rings.channels; ++channel)
      for (size_t peer = 0; peer < peers.size(); ++peer)
        *PairMemory(memory->hostData(), offsets, static_cast<int>(peer))
             .credit(static_cast<Wire>(wire), channel) = firstMessage_;
  const uint32_t* const poison = &PairMemory(memory->data(), offsets, 0).words()->poison;
  memory_->upload(&poison, sizeof poison, offsets_.words() + offsetof(RankWords, hostPoison));
  liveHostMemory().add(memory);
  inbox_ = std::make_unique<Inbox>(Inbox{std::move(peers), offsets, std::move(memory)});
}

void P2pEndpoint::closeHostMemory() {
  if (inbox_) liveHostMemory().remove(inbox_->memory->data());
}

EndpointAddress P2pEndpoint::hostAddress() const {
  EndpointAddress address;
  address.descriptors.push_back(inbox_->memory->exported());
  base::ByteWriter writer;
  writer.put(static_cast<int64_t>(getpid()))
      .put(processToken())
      .put(static_cast<int32_t>(rank_))
      .put(static_cast<uint32_t>(inbox_->peers.size()));
  for (const int peer : inbox_->peers) writer.put(static_cast<int32_t>(peer));
  writer.put(reinterpret_cast<uint64_t>(inbox_->memory->data())).put(inbox_->memory->bytes());
  address.blob = writer.take();
  return address;
}

// Neither the peer's list nor its bytes can lead outside of what it has given.
void P2pEndpoint::connectByHost(int peer, const base::Bytes& address,
                                std::span<const base::FileDescriptor> descriptors) {
  TUTTI_ASSERT(inbox_ && !isConnected(peer), "rank ", rank_, " connects to ", peer, " by the host");
  const HostAddress its = read(address, size_);
  const auto self = std::ranges::find(its.peers, rank_);
  if (its.rank != peer || self == its.peers.end())
    base::fail(ErrorCode::Refused, "memory of the host of rank ", its.rank,
               " for others than rank ", rank_, " instead of that of rank ", peer, " for it");
  Outbox box{.memory = nullptr,
             .offsets = std::make_unique<MemoryLayout>(layout_, static_cast<int>(its.peers.size())),
             .self = static_cast<int>(self - its.peers.begin()),
             .peer = placeOf(peer, inbox_->peers)};
  if (its.bytes != box.offsets->totalBytes())
    base::fail(ErrorCode::Refused, "memory of the host of rank ", peer, " has ", its.bytes,
               " bytes, not ", box.offsets->totalBytes());
  if (its.process == getpid() && its.token == processToken())
    box.memory = liveHostMemory().find(its.start);
  else if (descriptors.size() == 1)
    box.memory = HostMemory::open(device_, descriptors[0], its.bytes);
  if (!box.memory || box.memory->bytes() != its.bytes)
    base::fail(ErrorCode::Refused, "the address of rank ", peer,
               " names memory of the host that is not there");
  there_[peer] = box.memory->data();
  byHost_[peer] = std::move(box);
  isKept_[peer] = false;
  reasons_[peer].clear();
  publish();
}

std::vector<uint32_t*> P2pEndpoint::copyPoisons() const {
  std::vector<uint32_t*> words{PairMemory(memory_->data(), offsets_, 0).copyPoison()};
  if (inbox_) words.push_back(PairMemory(inbox_->memory->data(), inbox_->offsets, 0).copyPoison());
  return words;
}

}  // namespace tutti::transports::p2p
