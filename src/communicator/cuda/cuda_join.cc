#include "src/communicator/cuda/cuda_join.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <utility>

#include "src/base/check.h"
#include "src/base/env.h"
#include "src/base/log.h"
#include "src/communicator/cuda/block_shares.h"
#include "src/communicator/cuda/cuda_rank.h"
#include "src/device/cuda.h"
#include "src/device/cuda/guards.h"
#include "src/device/cuda/library_stream.h"
#include "src/device/cuda/virtual_memory.h"
#include "src/executor/copy/copy_executor.h"
#include "src/executor/copy/kernels.h"
#include "src/executor/kernel/direct.h"
#include "src/executor/kernel/kernel_executor.h"

namespace tutti::communicator {
namespace {

using device::OnDevice;
using device::OutsideCapture;
using transports::p2p::P2pEndpoint;
using transports::p2p::P2pHandles;
using transports::p2p::P2pLayout;

/// Of a rank's slots by the simple wire; those of LL and LL128 take as much again at most.
constexpr size_t kSlotsBytes = 16 << 20;
constexpr uint32_t kSlots = 4;
constexpr size_t kMostSlotBytes = 128 << 10, kLeastSlotBytes = 4 << 10;
/// Messages to other hosts that do not pass through this one's memory, where UCX can: fetching one
/// costs a round trip more, and what is shorter gains nothing. Not measured.
constexpr uint32_t kLeastDirectBytes = 8192;
constexpr uint64_t kProbeDeadlineNs = 10'000'000'000;

/// Two channels, as every plan has at most, for each of the slices that a large device works on.
int channelsOf(int device) {
  int processors = 0;
  TUTTI_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  int slices = 1;
  while (slices < 16 && 16 * slices <= processors) slices *= 2;
  return 2 * slices;
}

P2pLayout layoutFor(int device, int size) {
  const int channels = channelsOf(device);
  const size_t rings = static_cast<size_t>(std::max(size - 1, 1)) * static_cast<size_t>(channels);
  size_t slotBytes = kMostSlotBytes;
  while (slotBytes > kLeastSlotBytes && rings * kSlots * slotBytes > kSlotsBytes) slotBytes /= 2;
  return {.rings = {.channels = channels, .slotCount = kSlots, .slotBytes = slotBytes},
          .lowLatencyBytes = std::min<size_t>(slotBytes, 8192)};
}

/// Slots for copies alone: each message costs some calls, so that large ones are worth their
/// memory.
P2pLayout copyLayoutFor(int size) {
  constexpr int kChannels = 2;
  constexpr size_t kBytes = 64 << 20, kMost = 1 << 20, kLeast = 64 << 10;
  const size_t rings = static_cast<size_t>(std::max(size - 1, 1)) * kChannels;
  size_t slotBytes = kMost;
  while (slotBytes > kLeast && rings * kSlots * slotBytes > kBytes) slotBytes /= 2;
  return {.rings = {.channels = kChannels, .slotCount = kSlots, .slotBytes = kLeastSlotBytes},
          .lowLatencyBytes = kLeastSlotBytes,
          .copySlotBytes = slotBytes};
}

/// Calls of CUDA for one launch by copies: enough for buffers as large as a GPU's memory.
constexpr uint64_t kMostOperations = 1 << 22;

/// Of a call by copies, of one of so many ranks that this process has on a device. They may share
/// queues among each other, but not with those of another rank, that waits for them: several ranks
/// have no streams beside the callers'. Two queues are left to the program.
size_t streamsOf(uint32_t ranks) {
  const auto queues = static_cast<size_t>(base::env().gpuQueues);
  return ranks > 1 || queues <= 3 ? 1 : queues - 2;
}

/// No other join of any process has it, as far as chance goes.
uint64_t newNumber() {
  std::random_device random;
  return static_cast<uint64_t>(random()) << 32 | random();
}

/// This process. Those of other hosts may have the same id, but not the same number.
Process thisProcess() {
  static const uint64_t number = newNumber();
  return {getpid(), number};
}

Device checked(Device device) {
  device::requireCudaDevice(device.index);
  return device;
}

std::unique_ptr<P2pEndpoint> makeLocalEndpoint(const GpuJoin::Options& options,
                                               const P2pLayout& layout) {
  const int device = options.device.index;
  P2pHandles handles = P2pHandles::Ipc;
  if (options.hasOtherProcesses) {
    if (!base::env().gpuIpc && device::VirtualMemory::isSupported(device))
      handles = P2pHandles::Descriptors;
    base::log(LogLevel::Info, "rank ", options.rank, " on ", toString(options.device),
              ": other processes get at its memory by ",
              handles == P2pHandles::Descriptors ? "descriptors" : "CUDA's IPC handles");
  }
  return std::make_unique<P2pEndpoint>(device, options.rank, options.size, layout, 0, handles);
}

}  // namespace

CudaJoin::CudaJoin(const Options& options)
    : options_(options),
      number_(newNumber()),
      endpoint_(makeLocalEndpoint(options, layoutFor(checked(options.device).index, options.size))),
      peers_(static_cast<size_t>(options.size)) {
  peers_[options.rank] = {thisProcess(), options.device.index};
  if (std::ranges::find(options.isRemote, true) != options.isRemote.end())
    remote_ = options.makeRemote(executor::kernel::remoteLayout(endpoint_->layout()));
  state_.byCopies = options.byCopies && !remote_;
  if (options.rank == 0) group_ = number_;
}

// What makeReady() has handed over is gone from here.
CudaJoin::~CudaJoin() {
  abort();
  try {
    const OnDevice on(device());
    const OutsideCapture outside;
    giveBlocks();
    if (endpoint_) CudaRanks::ofProcess().free(takeMemory());
  } catch (const std::exception& e) {
    base::log(LogLevel::Error, "rank ", rank(), " leaves ", toString(options_.device), ": ",
              e.what());
  }
}

CudaMemory CudaJoin::takeMemory() {
  return {.device = device(),
          .probeIsOver = probeIsOver_,
          .endpoint = std::move(endpoint_),
          .before = std::move(before_),
          .copyProbe = std::move(copyProbe_),
          .remote = std::move(remote_)};
}

void CudaJoin::giveBlocks() {
  if (std::exchange(share_, {}).count > 0) BlockShares::ofProcess().give(group_, device());
}

transports::EndpointAddress CudaJoin::address(int peer) {
  transports::EndpointAddress own = isRemote(peer) ? remote_->address(peer) : endpoint_->address();
  own.blob = base::ByteWriter()
                 .put(thisProcess().id)
                 .put(thisProcess().number)
                 .put(static_cast<int32_t>(device()))
                 .put(number_)
                 .put(static_cast<uint8_t>(options_.reachesGpus))
                 .put(own.blob)
                 .take();
  return own;
}

void CudaJoin::connect(int peer, const transports::EndpointAddress& address) {
  base::ByteReader in(address.blob);
  peers_[peer].process.id = in.get<int64_t>("process");
  peers_[peer].process.number = in.get<uint64_t>("number of its process");
  peers_[peer].device = in.get<int32_t>("device");
  const auto number = in.get<uint64_t>("number");
  if (peer == 0) group_ = number;
  const bool reachesGpus = in.get<uint8_t>("reach of its network") != 0;
  const base::Bytes endpoint = in.getBytes("endpoint");
  in.requireEnd();
  const OutsideCapture outside;
  if (isRemote(peer)) return connectRemote(peer, endpoint, reachesGpus);
  endpoint_->connect(peer, endpoint, address.descriptors);
  if (!endpoint_->isConnected(peer)) part(peer, endpoint_->reason(peer));
  state_.byCopies |= endpoint_->takesTurns(peer);
}

void CudaJoin::part(int peer, const std::string& why) {
  state_.apart.try_emplace(peer, why);
  hearApart(rank(), peer, why);
}

// Whoever finds it, both ends let go of each other's memory.
void CudaJoin::hearApart(int peer, int other, const std::string& why) {
  const Pair pair = pairOf(peer, other);
  if (peer == pair.first)
    apart_.insert_or_assign(pair, why);
  else
    apart_.try_emplace(pair, why);
  if (pair.first != rank() && pair.second != rank()) return;
  const int its = pair.first == rank() ? pair.second : pair.first;
  if (endpoint_->isConnected(its) && !endpoint_->isByHost(its)) endpoint_->disconnect(its, why);
}

// Both ends come to the same. The peer sends nothing before it has heard this rank's state.
void CudaJoin::connectRemote(int peer, const base::Bytes& address, bool reachesGpus) {
  peers_[peer].isDirect = options_.reachesGpus && reachesGpus;
  remote_->connect(peer, {address, {}});
  peers_[peer].remote = remote_->name(peer);
  endpoint_->connectThroughHost(
      peer, peers_[peer].isDirect ? kLeastDirectBytes : transports::p2p::kNoMessage);
  executor::kernel::goDirect(*endpoint_, *remote_, peer);
}

void CudaJoin::logWays() const {
  for (const auto& [pair, why] : apart_)
    if (pair.first == rank())
      base::log(LogLevel::Info, "rank ", rank(), " on ", toString(options_.device), " and rank ",
                pair.second, " on ", toString(Device{DeviceKind::Cuda, peers_[pair.second].device}),
                " exchange messages through memory of the host, because ", why);
  const auto remote = std::ranges::count(options_.isRemote, true);
  const auto direct = std::ranges::count(peers_, true, &Neighbour::isDirect);
  if (remote == 0) return;
  base::log(LogLevel::Info, "rank ", rank(), " on ", toString(options_.device), ": with ", direct,
            " of ", remote, " ranks on other hosts UCX sends messages of ", kLeastDirectBytes,
            " bytes and more from GPU to GPU; all others go through pinned memory");
}

std::string CudaJoin::describe(int peer) const {
  const Neighbour& it = peers_[peer];
  std::string text = "on " + toString(Device{DeviceKind::Cuda, it.device});
  if (peer == rank()) return text;
  if (const auto pair = apart_.find(pairOf(rank(), peer)); pair != apart_.end())
    return text + " through memory of the host" + (byCopies() ? ", with copies" : "") +
           ", because " + pair->second;
  if (!isRemote(peer)) return text + (byCopies() ? " by p2p, with copies" : " by p2p");
  return text + " by " + it.remote +
         (it.isDirect ? ", from GPU to GPU" : ", through pinned memory");
}

bool CudaJoin::canMap() const {
  if (byCopies() || hasPairsApart()) return false;
  for (int peer = 0; peer < options_.size; ++peer)
    if (!isInThisProcess(peer)) return false;
  return true;
}

// In this process or another: their kernels wait for each other here.
uint32_t CudaJoin::ranksHere() const {
  return static_cast<uint32_t>(std::ranges::count_if(peers_, [&](const Neighbour& peer) {
    return peer.process == thisProcess() && peer.device == device();
  }));
}

const GpuState& CudaJoin::state() {
  if (share_.count > 0 || byCopies()) return state_;
  const OnDevice on(device());
  const OutsideCapture outside;
  const uint32_t wanted = options_.mostBlocks ? options_.mostBlocks : wantedBlocks(ranksHere());
  share_ = BlockShares::ofProcess().take(group_, device(), ranksHere(), wanted);
  state_.blocks = std::min(share_.count, wanted);  // a rank that came earlier may have wanted more
  if (share_.count == 0)
    state_.add(rank(),
               base::message("no blocks are left on ", toString(options_.device), ", which holds ",
                             BlockShares::ofProcess().residency().capacity(device()),
                             " at the same time: this communicator's other ranks there, or other "
                             "communicators, have "
                             "them"));
  fewestBlocks_ = std::min(fewestBlocks_, state_.blocks);
  return state_;
}

std::vector<base::FileDescriptor> CudaJoin::descriptors(int peer) {
  if (state_.address.empty() || isInThisProcess(peer)) return {};
  if (!isByHost_) return endpoint_->address().descriptors;
  if (!isApart(peer)) return {};
  return endpoint_->hostAddress().descriptors;
}

void CudaJoin::hear(int peer, const ToldGpuState& told) {
  const GpuState& theirs = told.state;
  fewestBlocks_ = std::min(fewestBlocks_, theirs.blocks);
  state_.byCopies |= theirs.byCopies;
  const OutsideCapture outside;
  for (const auto& [other, why] : theirs.apart) hearApart(peer, other, why);
  if (!theirs.address.empty() && !endpoint_->isConnected(peer)) {
    if (isByHost_)
      connectByHost(peer, told);
    else
      connectAgain(peer, told);
  }
  for (const auto& [other, fault] : theirs.faults)
    state_.add(peer, base::message("rank ", peer, other == peer ? ": " : " with rank ",
                                   other == peer ? "" : std::to_string(other) + ": ", fault));
}

void CudaJoin::connectAgain(int peer, const ToldGpuState& told) {
  if (isApart(peer)) return;
  endpoint_->connect(peer, told.state.address, told.descriptors);
  if (!endpoint_->isConnected(peer)) part(peer, endpoint_->reason(peer));
}

// Where this rank has no such memory itself it has said so.
void CudaJoin::connectByHost(int peer, const ToldGpuState& told) {
  if (!isApart(peer) || state_.address.empty()) return;
  try {
    endpoint_->connectByHost(peer, told.state.address, told.descriptors);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::Refused) throw;
    addHostFault(peer, error.what());
  }
}

void CudaJoin::addHostFault(int peer, const std::string& why) {
  state_.add(peer, base::message(apart_.at(pairOf(rank(), peer)),
                                 "; and through memory of the host: ", why));
}

void CudaJoin::joinByHost() {
  const OutsideCapture outside;
  isByHost_ = true;
  state_.address.clear();
  endpoint_->keepPairs();
  std::vector<int> peers;
  for (int peer = 0; peer < options_.size; ++peer)
    if (isApart(peer)) peers.push_back(peer);
  if (peers.empty()) return;
  try {
    endpoint_->openHostMemory(peers);
    state_.address = endpoint_->hostAddress().blob;
  } catch (const Error& error) {
    for (const int peer : peers) addHostFault(peer, error.what());
  }
}

// Memory that peers have opened is freed when they have closed it.
void CudaJoin::rejoin() {
  const OutsideCapture outside;
  giveBlocks();
  if (remote_)
    return state_.add(rank(),
                      "ranks of several processes share a GPU, and others are on other hosts: "
                      "kernels are needed for these, and may not wait for each other there");
  for (int peer = 0; peer < options_.size; ++peer)
    if (peer != rank()) endpoint_->disconnect(peer, "it is joined for copies");
  before_ = std::move(endpoint_);
  endpoint_ = makeLocalEndpoint(options_, copyLayoutFor(options_.size));
  state_.address = endpoint_->address().blob;
}

void CudaJoin::startProbe() {
  const OutsideCapture outside;
  if (byCopies())
    copyProbe_ = std::make_unique<executor::copy::CopyProbe>(*endpoint_, ++probes_);
  else
    endpoint_->startProbe(++probes_, kProbeDeadlineNs, probeIsOver_->data());
}

// A peer that fails meanwhile writes no pattern.
void CudaJoin::abort() {
  std::atomic_ref(*probeIsOver_->data()).store(1, std::memory_order_relaxed);
}

void CudaJoin::finishProbe() {
  const OutsideCapture outside;
  const auto found = copyProbe_ ? copyProbe_->finish() : endpoint_->finishProbe();
  for (int peer = 0; peer < options_.size; ++peer)
    if (const std::string& wrong = found[static_cast<size_t>(peer)]; !wrong.empty())
      judge(peer, wrong);
  // Not earlier: that waits for what runs on the GPU, which may wait for this rank.
  copyProbe_.reset();
  before_.reset();
}

void CudaJoin::judge(int peer, const std::string& wrong) {
  if (isByHost_) return addHostFault(peer, wrong);
  base::log(LogLevel::Warning, "rank ", rank(), " on ", toString(options_.device), ": ", wrong,
            "; messages between the two go through memory of the host");
  part(peer, wrong);
}

// Also of kernels: ranks that call by streams of their own wait for each other there.
void CudaJoin::warnOfFewQueues() const {
  const uint32_t ranks = ranksHere();
  if (ranks <= base::env().gpuQueues) return;
  base::log(LogLevel::Warning, "this process has ", ranks, " ranks of a communicator on ",
            toString(options_.device), ", whose streams share ", base::env().gpuQueues,
            " queues: calls on streams of their own may wait for each other for ever, unless "
            "CUDA_DEVICE_MAX_CONNECTIONS is ",
            ranks, " or more");
}

std::unique_ptr<executor::GpuExecutor> CudaJoin::makeExecutor() {
  const uint64_t deadlineNs = static_cast<uint64_t>(options_.timeoutMs) * 1'000'000;
  if (byCopies())
    return std::make_unique<executor::copy::CopyExecutor>(
        *endpoint_, executor::copy::CopyOptions{.deadlineNs = deadlineNs,
                                                .mostOperations = kMostOperations,
                                                .mostStreams = streamsOf(ranksHere())});
  std::vector<int> devices;
  for (const Neighbour& peer : peers_) devices.push_back(peer.device);
  return std::make_unique<executor::kernel::KernelExecutor>(
      *endpoint_, BlockShares::ofProcess().residency(),
      executor::kernel::KernelOptions{
          .blocks = fewestBlocks_,
          .reservesBlocks = !share_.shared,
          .deadlineNs = deadlineNs,
          .keepsLines = canMap() && executor::kernel::linesArriveWhole(devices)},
      std::move(remote_));
}

GpuFacts CudaJoin::facts() const {
  const auto& layout = endpoint_->layout();
  std::vector<Pair> apart;
  for (const auto& [pair, why] : apart_) apart.push_back(pair);
  return {.group = group_,
          .apart = std::move(apart),
          .byCopies = byCopies(),
          .canMap = canMap(),
          .slotBytes = byCopies() ? layout.copySlotBytes : layout.rings.slotBytes,
          .channels = layout.rings.channels,
          .blocks = byCopies() ? 1 : fewestBlocks_,
          .lanes = byCopies() ? executor::copy::kMostLanes
                              : executor::kernel::KernelExecutor::mostLanes(fewestBlocks_),
          .operands = byCopies() ? executor::copy::kMostOperands
                                 : executor::kernel::KernelExecutor::mostPorts()};
}

std::unique_ptr<GpuRank> CudaJoin::makeReady() {
  const OnDevice on(device());
  const OutsideCapture outside;
  logWays();
  if (rank() == 0) warnOfFewQueues();
  std::vector<int> otherDevices;
  for (const Neighbour& peer : peers_)
    if (peer.device != device() &&
        std::ranges::find(otherDevices, peer.device) == otherDevices.end())
      otherDevices.push_back(peer.device);
  // So that copies that a thread waits for make no stream beside calls that run.
  device::sharedStream(device::StreamPurpose::Copies, options_.device.index);
  // Where making the executor throws, this join keeps its memory, but not the transport to other
  // hosts.
  auto ready = std::make_unique<CudaRank>(CudaRank::Options{.rank = rank(),
                                                            .device = options_.device,
                                                            .facts = facts(),
                                                            .isAlone = ranksHere() == 1,
                                                            .otherDevices = otherDevices});
  auto executor = makeExecutor();
  CudaMemory memory = takeMemory();
  memory.executor = std::move(executor);
  ready->own(std::exchange(share_, {}), std::move(memory));
  return ready;
}

std::unique_ptr<GpuJoin> makeGpuJoin(const GpuJoin::Options& options) {
  const OnDevice on(checked(options.device).index);
  const OutsideCapture outside;
  CudaRanks::ofProcess().freeKept();
  return std::make_unique<CudaJoin>(options);
}

}  // namespace tutti::communicator
