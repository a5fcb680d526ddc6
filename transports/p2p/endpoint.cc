#include "transports/p2p/endpoint.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/check.h"
#include "src/device/cuda.h"
#include "src/device/cuda/library_stream.h"
#include "transports/p2p/live_memory.h"
#include "transports/ring_layout.h"

namespace tutti::transports::p2p {
namespace {

constexpr size_t kTableAlignment = 128;

size_t roundUp(size_t bytes) {
  return (bytes + kTableAlignment - 1) / kTableAlignment * kTableAlignment;
}
size_t linkBytes(const P2pLayout& layout, int size) {
  return roundUp(sizeof(P2pLink) * static_cast<size_t>(layout.rings.channels) *
                 static_cast<size_t>(size));
}

/// Which GPU of the world it is, MIG instances included.
cudaUUID_t uuidOf(int device) {
  cudaDeviceProp properties;
  TUTTI_CUDA(cudaGetDeviceProperties(&properties, device));
  return properties.uuid;
}

/// Lives as long as the process: endpoints may end late.
LiveMemory<DeviceMemory>& liveMemory() {
  static auto& all = *new LiveMemory<DeviceMemory>;
  return all;
}

/// Of this process's, or -1.
int deviceWith(const base::Bytes& uuid) {
  int count = 0;
  TUTTI_CUDA(cudaGetDeviceCount(&count));
  for (int device = 0; device < count; ++device)
    if (base::bytesOf(uuidOf(device)) == uuid) return device;
  return -1;
}

/// Empty where it has.
std::string missingAccess(int device, int peer) {
  if (device == peer) return {};
  int can = 0;
  TUTTI_CUDA(cudaDeviceCanAccessPeer(&can, device, peer));
  return can != 0 ? "" : base::message("device ", device, " has no peer access to device ", peer);
}

/// Empty, or why kernels on `device` cannot touch `peer`'s memory.
std::string enablePeer(int device, int peer) {
  if (device == peer) return {};
  if (std::string missing = missingAccess(device, peer); !missing.empty()) return missing;
  OnDevice on(device);
  const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
  if (error == cudaSuccess) return {};
  cudaGetLastError();
  if (error == cudaErrorPeerAccessAlreadyEnabled) return {};
  return base::message("peer access of device ", device, " to device ", peer, ": ",
                       cudaGetErrorString(error));
}

}  // namespace

P2pEndpoint::P2pEndpoint(int device, int rank, int size, const P2pLayout& layout,
                         uint32_t firstMessage, P2pHandles handles)
    : device_(device),
      rank_(rank),
      size_(size),
      layout_(layout),
      offsets_(layout, size),
      firstMessage_(firstMessage),
      there_(static_cast<size_t>(size)),
      held_(static_cast<size_t>(size)),
      opened_(static_cast<size_t>(size)),
      takesTurns_(static_cast<size_t>(size)),
      isKept_(static_cast<size_t>(size)),
      byHost_(static_cast<size_t>(size)),
      hosted_(static_cast<size_t>(size)),
      reasons_(static_cast<size_t>(size), "it has not been connected"),
      findings_(static_cast<size_t>(size)) {
  TUTTI_REQUIRE(rank >= 0 && rank < size, "rank ", rank, " of ", size);
  try {
    const size_t bytes = offsets_.totalBytes();
    memory_ =
        handles == P2pHandles::Ipc
            ? std::make_shared<DeviceMemory>(device, bytes)
            : std::make_shared<DeviceMemory>(device, device::VirtualMemory::create(device, bytes));
  } catch (const Error& error) {
    base::fail(error.code(), "rank ", rank, " needs ", offsets_.totalBytes(), " bytes of device ",
               device, " for ", describe(layout.rings), " to ", size - 1, " peers: ", error.what());
  }
  tables_ = DeviceMemory(
      device, kWireCount * linkBytes(layout, size) + sizeof(P2pPeer) * static_cast<size_t>(size));
  pairs_ = DeviceMemory(device, sizeof(ProbeTarget) * static_cast<size_t>(size));
  for (int wire = 0; wire < kWireCount && firstMessage != 0; ++wire)
    for (int channel = 0; channel < layout.rings.channels; ++channel)
      for (int peer = 0; peer < size; ++peer)
        memory_->upload(&firstMessage, sizeof firstMessage,
                        offsets_.credit(static_cast<Wire>(wire), channel, peer));
  liveMemory().add(memory_);
  OnDevice on(device);
  const device::Kernel kernel{"probe", probeAddress()};
  device::loadKernels({&kernel, 1}, device);
  probeStream_ = device::makeLibraryStream(device::StreamPurpose::Probes);
  stream_ = device::makeLibraryStream(device::StreamPurpose::Calls);
}

P2pEndpoint::~P2pEndpoint() {
  liveMemory().remove(memory_->data());
  closeHostMemory();
  cudaStreamDestroy(stream_);
  cudaStreamDestroy(probeStream_);
}

EndpointAddress P2pEndpoint::address() const {
  cudaIpcMemHandle_t handle{};
  EndpointAddress address;
  if (memory_->shared().bytes() == 0)
    handle = device::IpcMemory::handleOf(memory_->data());
  else
    address.descriptors.push_back(memory_->shared().exported());
  base::ByteWriter writer;
  writer.put(static_cast<int64_t>(getpid()))
      .put(processToken())
      .put(static_cast<int32_t>(device_))
      .put(static_cast<int32_t>(rank_))
      .put(static_cast<int32_t>(size_))
      .put(static_cast<int32_t>(layout_.rings.channels))
      .put(layout_.rings.slotCount)
      .put(static_cast<uint64_t>(layout_.rings.slotBytes))
      .put(static_cast<uint64_t>(layout_.lowLatencyBytes))
      .put(static_cast<uint64_t>(layout_.copySlotBytes))
      .put(reinterpret_cast<uint64_t>(memory_->data()))
      .put(base::bytesOf(uuidOf(device_)))
      .put(base::bytesOf(handle))
      .put(static_cast<uint64_t>(memory_->bytes()));
  address.blob = writer.take();
  return address;
}

void P2pEndpoint::connect(int peer, const base::Bytes& address,
                          std::span<const base::FileDescriptor> descriptors) {
  TUTTI_ASSERT(peer >= 0 && peer < size_ && peer != rank_, "rank ", rank_, " connects to ", peer);
  unsigned char* const memory = open(peer, address, descriptors);
  if (memory == nullptr) return;
  there_[peer] = memory;
  isKept_[peer] = false;
  reasons_[peer].clear();
  publish();
}

// The peer's memory, or null with a reason.
unsigned char* P2pEndpoint::open(int peer, const base::Bytes& address,
                                 std::span<const base::FileDescriptor> descriptors) {
  base::ByteReader reader(address);
  const auto process = reader.get<int64_t>("process");
  const auto token = reader.get<uint64_t>("token of the process");
  const auto device = reader.get<int32_t>("device");
  const auto rank = reader.get<int32_t>("rank"), size = reader.get<int32_t>("size");
  P2pLayout layout;
  layout.rings.channels = reader.get<int32_t>("channels");
  layout.rings.slotCount = reader.get<uint32_t>("slots");
  layout.rings.slotBytes = reader.get<uint64_t>("slot bytes");
  layout.lowLatencyBytes = reader.get<uint64_t>("low-latency bytes");
  layout.copySlotBytes = reader.get<uint64_t>("bytes of slots for copies");
  const auto start = reader.get<uint64_t>("memory");
  const base::Bytes uuid = reader.getBytes("uuid", sizeof(cudaUUID_t));
  const base::Bytes handle = reader.getBytes("handle", sizeof(cudaIpcMemHandle_t));
  const auto bytes = reader.get<uint64_t>("bytes of the memory");
  reader.requireEnd();
  if (rank != peer || size != size_ || uuid.size() != sizeof(cudaUUID_t) ||
      handle.size() != sizeof(cudaIpcMemHandle_t) || bytes < offsets_.totalBytes() ||
      descriptors.size() > 1)
    base::fail(ErrorCode::Refused, "an address of rank ", rank, " of ", size, " instead of rank ",
               peer, " of ", size_);
  requireSameLayout(peer, layout.rings, rank_, layout_.rings);
  if (layout != layout_)
    base::fail(ErrorCode::Refused, "ranks disagree about messages by LL and by copies: rank ", peer,
               " has ", layout.lowLatencyBytes, " and ", layout.copySlotBytes, " bytes, rank ",
               rank_, " has ", layout_.lowLatencyBytes, " and ", layout_.copySlotBytes);
  if (process == getpid() && token == processToken()) return hold(peer, device, start);
  takesTurns_[peer] = uuid == base::bytesOf(uuidOf(device_));
  unsigned char* const memory =
      descriptors.empty() ? openIpc(peer, handle) : openShared(peer, descriptors[0], bytes);
  // Where this process has the peer's device, CUDA says more of it than why memory is not opened.
  if (const int its = memory == nullptr ? deviceWith(uuid) : -1; its >= 0)
    if (std::string missing = missingAccess(device_, its); !missing.empty())
      reasons_[peer] = std::move(missing);
  return memory;
}

unsigned char* P2pEndpoint::openIpc(int peer, const base::Bytes& bytes) {
  cudaIpcMemHandle_t handle;
  std::memcpy(&handle, bytes.data(), sizeof handle);
  try {
    auto memory = device::IpcMemory::open(handle, device_);
    auto* const data = static_cast<unsigned char*>(memory.data());
    opened_[peer] = std::move(memory);
    return data;
  } catch (const Error& error) {
    return apart(peer, error.what());
  }
}

unsigned char* P2pEndpoint::openShared(int peer, const base::FileDescriptor& exported,
                                       size_t bytes) {
  try {
    auto memory = device::VirtualMemory::open(exported, device_, bytes);
    auto* const data = static_cast<unsigned char*>(memory.data());
    opened_[peer] = std::move(memory);
    return data;
  } catch (const Error& error) {
    return apart(peer, error.what());
  }
}

unsigned char* P2pEndpoint::apart(int peer, const std::string& why) {
  takesTurns_[peer] = false;
  reasons_[peer] = base::message("its memory cannot be opened on device ", device_, ": ", why);
  return nullptr;
}

// The memory of a rank of this process.
unsigned char* P2pEndpoint::hold(int peer, int device, uint64_t start) {
  auto memory = liveMemory().find(start);
  if (!memory || memory->device() != device || memory->bytes() < offsets_.totalBytes())
    base::fail(ErrorCode::Refused, "the address of rank ", peer, " names memory of device ", device,
               " at ", start, ", where this process has no endpoint");
  reasons_[peer] = enablePeer(device_, device);
  if (!reasons_[peer].empty()) return nullptr;
  if (memory->shared().bytes() > 0) memory->shared().allow(device_);
  held_[peer] = std::move(memory);
  return held_[peer]->data();
}

void P2pEndpoint::disconnect(int peer, const std::string& reason) {
  opened_[peer] = {};
  takesTurns_[peer] = false;
  there_[peer] = nullptr;
  hosted_[peer].reset();
  isKept_[peer] = false;
  const Outbox before = std::exchange(byHost_[peer], {});
  reasons_[peer] = reason;
  publish();
  held_[peer].reset();
}

P2pLink* P2pEndpoint::links(Wire wire) const {
  return reinterpret_cast<P2pLink*>(tables_.data() +
                                    static_cast<size_t>(wire) * linkBytes(layout_, size_));
}

const unsigned char* P2pEndpoint::credits(Wire wire) const {
  return memory_->data() + offsets_.credit(wire, 0, 0);
}

const P2pPeer* P2pEndpoint::peers() const {
  return reinterpret_cast<const P2pPeer*>(tables_.data() + kWireCount * linkBytes(layout_, size_));
}

template <class Value>
void P2pEndpoint::put(base::Bytes& image, const Value* at, const Value& value) const {
  const auto offset = reinterpret_cast<const unsigned char*>(at) - tables_.data();
  std::memcpy(image.data() + offset, &value, sizeof value);
}

// By each wire's table the kernel sees that the peer is far, and by that of Simple where.
void P2pEndpoint::putRemote(base::Bytes& image, int peer) const {
  put(image, peers() + peer, P2pPeer{.poison = hostPoison(peer)});
  for (const Wire wire : {Wire::Simple, Wire::LL, Wire::LL128})
    for (int channel = 0; channel < layout_.rings.channels; ++channel)
      put(image, links(wire) + channel * size_ + peer,
          wire == Wire::Simple ? hostLink(peer, channel) : P2pLink{.leavesHost = 1});
}

PairMemory P2pEndpoint::here(int peer) const {
  if (isByHost(peer)) return {inbox_->memory->data(), inbox_->offsets, byHost_[peer].peer};
  return {memory_->data(), offsets_, peer};
}

PairMemory P2pEndpoint::there(int peer) const {
  if (isByHost(peer)) return {there_[peer], *byHost_[peer].offsets, byHost_[peer].self};
  return {there_[peer], offsets_, rank_};
}

void P2pEndpoint::putLocal(base::Bytes& image, int peer) const {
  const PairMemory own = here(peer), its = there(peer);
  put(image, peers() + peer, P2pPeer{&its.words()->poison, its.entries(), own.entries()});
  for (int w = 0; w < kWireCount; ++w)
    for (int channel = 0; channel < layout_.rings.channels; ++channel) {
      const auto wire = static_cast<Wire>(w);
      const P2pLink link{.sendSlots = its.slots(wire, channel),
                         .receiveSlots = own.slots(wire, channel),
                         .credit = own.credit(wire, channel),
                         .peerCredit = its.credit(wire, channel),
                         .sent = firstMessage_,
                         .received = firstMessage_};
      put(image, links(wire) + channel * size_ + peer, link);
    }
}

void P2pEndpoint::publish() {
  base::Bytes image(tables_.bytes());
  for (int peer = 0; peer < size_; ++peer) {
    if (isThroughHost(peer)) putRemote(image, peer);
    if (there_[peer] != nullptr && !takesTurns_[peer]) putLocal(image, peer);
  }
  tables_.upload(image.data(), image.size());
}

void P2pEndpoint::keepPairs() {
  for (int peer = 0; peer < size_; ++peer) isKept_[peer] = there_[peer] != nullptr;
}

void P2pEndpoint::startProbe(uint32_t number, uint64_t deadlineNs, const uint32_t* isOver) {
  std::fill_n(findings_.data(), size_, ProbeFinding{});
  std::vector<ProbeTarget> pairs(static_cast<size_t>(size_));
  for (int peer = 0; peer < size_; ++peer)
    if (there_[peer] != nullptr && !takesTurns_[peer] && !isKept_[peer])
      pairs[peer] = {there(peer).probe(), here(peer).probe()};
  pairs_.upload(pairs.data(), pairs.size() * sizeof(ProbeTarget));
  OnDevice on(device_);
  TUTTI_CUDA(launchProbe({.pairs = pairs_.as<ProbeTarget>(),
                          .findings = findings_.data(),
                          .rank = static_cast<uint32_t>(rank_),
                          .ranks = static_cast<uint32_t>(size_),
                          .seed = number,
                          .words = kProbeBytes / 4,
                          .deadlineNs = deadlineNs,
                          .isOver = isOver},
                         probeStream_));
}

std::vector<std::string> P2pEndpoint::finishProbe() {
  OnDevice on(device_);
  TUTTI_CUDA(cudaStreamSynchronize(probeStream_));
  std::vector<std::string> faults;
  for (int peer = 0; peer < size_; ++peer) faults.push_back(faultOf(peer, findings_.data()[peer]));
  return faults;
}

std::string P2pEndpoint::faultOf(int peer, const ProbeFinding& finding) const {
  if (finding.state == ProbeState::Late)
    return base::message("what rank ", peer, " wrote did not arrive at rank ", rank_, " on device ",
                         device_, " in time");
  if (finding.state == ProbeState::Wrong)
    return base::message("what rank ", peer, " wrote arrived wrong at rank ", rank_, " on device ",
                         device_, ", from byte ", 4 * finding.firstWrong, " of ", kProbeBytes);
  return {};
}

void P2pEndpoint::requireConnected() const { requireNone(reasons_); }

void P2pEndpoint::requireTogether() const {
  std::vector<std::string> reasons;
  for (int peer = 0; peer < size_; ++peer) reasons.push_back(reasonApart(peer));
  requireNone(reasons);
}

// Of kernels that wait for each other.
std::string P2pEndpoint::reasonApart(int peer) const {
  if (!takesTurns_[peer]) return reasons_[peer];
  return base::message("it is another process on the same device ", device_,
                       ", whose kernels need not run at the same time as this one's (without MPS)");
}

// By peer.
void P2pEndpoint::requireNone(const std::vector<std::string>& reasons) const {
  std::string missing;
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_ && !reasons[peer].empty())
      missing += base::message(missing.empty() ? "" : "; ", "rank ", peer, ": ", reasons[peer]);
  if (!missing.empty())
    base::fail(ErrorCode::PeerLost, "rank ", rank_, " is not joined by p2p with ", missing);
}

uint64_t P2pEndpoint::memoryBytes() const {
  uint64_t bytes = memory_->bytes() + tables_.bytes() + pairs_.bytes();
  for (const auto& hosted : hosted_)
    if (hosted && hosted->direct) bytes += hosted->direct->bytes();
  return bytes;
}

void connectInProcess(std::span<P2pEndpoint* const> endpoints, uint64_t probeDeadlineNs) {
  for (P2pEndpoint* from : endpoints)
    for (P2pEndpoint* to : endpoints)
      if (from != to) to->connect(from->rank(), from->address().blob);
  probeInProcess(endpoints, probeDeadlineNs);
}

void probeInProcess(std::span<P2pEndpoint* const> endpoints, uint64_t deadlineNs) {
  // Whom one end cannot reach the other must not wait for.
  for (P2pEndpoint* endpoint : endpoints)
    for (P2pEndpoint* peer : endpoints)
      if (endpoint != peer && !endpoint->isConnected(peer->rank()) &&
          peer->isConnected(endpoint->rank()))
        peer->disconnect(endpoint->rank(), endpoint->reason(peer->rank()));
  for (P2pEndpoint* endpoint : endpoints) endpoint->startProbe(1, deadlineNs);
  std::vector<std::vector<std::string>> faults;
  for (P2pEndpoint* endpoint : endpoints) faults.push_back(endpoint->finishProbe());
  for (size_t rank = 0; rank < faults.size(); ++rank)
    for (size_t peer = 0; peer < faults.size(); ++peer) {
      if (faults[rank][peer].empty()) continue;
      endpoints[rank]->disconnect(static_cast<int>(peer), faults[rank][peer]);
      endpoints[peer]->disconnect(static_cast<int>(rank), faults[rank][peer]);
    }
}

}  // namespace tutti::transports::p2p
