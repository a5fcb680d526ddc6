// Joining the GPUs of a communicator's ranks: addresses went with the hellos; then ranks tell each
// other twice what they know to be in the way, before and after the pairs have been tried out. Who
// is joined once more, for copies, does so between two more rounds: what is found there is known to
// one rank alone, and either all go on or none.

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <ranges>

#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/communicator/gpu_parking.h"
#include "src/communicator/gpu_work.h"
#include "src/communicator/state.h"

namespace tutti {

using communicator::GpuState;

void Communicator::Impl::makeGpu() {
  if (settings.device.kind != DeviceKind::Cuda) {
    noGpu = "it is of " + toString(settings.device);
    return;
  }
  const auto isFar = communicator::farPeers(who.rank(), links.topology(), settings.transport);
  const bool isAlone = std::ranges::none_of(isFar, std::identity());
  const auto isElsewhere = [&](int peer) {
    return !isFar[peer] && who.info(peer).pid != ::getpid();
  };
  const auto ranks = std::views::iota(0, size);
  communicator::GpuParking::ofProcess().sweep();
  auto side = communicator::makeGpuSide(
      {.device = settings.device,
       .rank = who.rank(),
       .size = size,
       .timeoutMs = settings.timeoutMs,
       .mostBlocks = settings.gpuBlocks,
       .byCopies = settings.gpuCopies,
       .hasOtherProcesses = std::ranges::any_of(ranks, isElsewhere),
       .isFar = isFar,
       .reachesGpus =
           !isAlone && settings.gpuDirect.value_or(transports::ucx::reachesGpus(*links.network())),
       .makeFar = [this](const transports::RingLayout& layout) {
         return transports::ucx::makeUcxEndpoint(links.network(), who.rank(), size, layout);
       }});
  std::lock_guard lock(mutex);
  gpu = std::move(side);
}

namespace {

std::string firstFault(const GpuState& state, int self) {
  const auto& [peer, fault] = *state.faults.begin();
  return peer == self ? fault : base::message("with rank ", peer, ": ", fault);
}

}  // namespace

bool Communicator::Impl::connectGpu(const std::vector<transports::Address>& addresses) {
  if (!gpu) return false;
  for (int peer = 0; peer < size; ++peer)
    if (peer != who.rank() && addresses[peer].blob.empty()) {
      noGpu = "rank " + std::to_string(peer) + " has no GPU";
      return false;
    }
  for (int peer = 0; peer < size; ++peer) {
    if (peer == who.rank()) continue;
    connectGpuTo(peer, [&] { gpu->connect(peer, addresses[peer]); });
  }
  return true;
}

// The peer's memory is not there any more where it has failed meanwhile.
void Communicator::Impl::connectGpuTo(int peer, const std::function<void()>& connect) {
  try {
    connect();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::Refused) throw;
    cannotConnect(peer, e);
  }
}

bool Communicator::Impl::gpuIsFaultless() {
  const GpuState& state = gpu->state();
  if (state.faults.empty()) return true;
  noGpu = firstFault(state, who.rank());
  return false;
}

void Communicator::Impl::tellGpuState(size_t round, base::Deadline deadline) {
  for (int peer = 0; peer < size; ++peer)
    if (peer != who.rank()) send(peer, Message::Gpu, gpu->state().write(), gpu->descriptors());
  awaitAll("GPU's state", deadline, [&](const Peer& p) { return p.gpu.size() > round; });
  for (int peer = 0; peer < size; ++peer) {
    if (peer == who.rank()) continue;
    std::unique_lock lock(mutex);  // a quick peer's next state may come meanwhile
    const communicator::ToldGpuState theirs = std::move(peers[peer].gpu[round]);
    lock.unlock();
    connectGpuTo(peer, [&] { gpu->hear(peer, theirs); });
  }
}

void Communicator::Impl::joinGpus(const std::vector<transports::Address>& addresses,
                                  base::Deadline deadline) {
  if (!connectGpu(addresses)) return;
  tellGpuState(0, deadline);
  if (!gpuIsFaultless()) return;
  const bool rejoins = gpu->byCopies();
  if (rejoins) {
    gpu->rejoin();
    for (const size_t round : {1, 2}) tellGpuState(round, deadline);
    if (!gpuIsFaultless()) return;
  }
  gpu->startProbe();
  if (rejoins) tellGpuState(3, deadline);  // what this rank has copied is there
  gpu->finishProbe();
  tellGpuState(rejoins ? 4 : 1, deadline);
  if (gpuIsFaultless()) gpu->makeReady();
}

void Communicator::Impl::joinLocalGpus(const std::vector<std::shared_ptr<Impl>>& ranks) {
  for (const auto& rank : ranks) rank->makeGpu();
  bool joined = true;
  for (const auto& rank : ranks) {
    std::vector<transports::Address> addresses(ranks.size());
    for (size_t peer = 0; peer < ranks.size(); ++peer)
      if (ranks[peer] != rank && ranks[peer]->gpu)
        addresses[peer] = ranks[peer]->gpu->address(rank->who.rank());
    joined &= rank->connectGpu(addresses);
  }
  if (!joined) return;
  const auto tellAll = [&] {
    bool good = true;
    std::vector<GpuState> states;
    for (const auto& rank : ranks) states.push_back(rank->gpu->state());
    for (const auto& rank : ranks)
      for (int peer = 0; peer < rank->size; ++peer)
        if (peer != rank->who.rank()) rank->gpu->hear(peer, {states[peer]});
    for (const auto& rank : ranks) good &= rank->gpuIsFaultless();
    return good;
  };
  if (!tellAll()) return;
  if (ranks.front()->gpu->byCopies()) {
    for (const auto& rank : ranks) rank->gpu->rejoin();
    tellAll();
    if (!tellAll()) return;
  }
  for (const auto& rank : ranks) rank->gpu->startProbe();
  for (const auto& rank : ranks) rank->gpu->finishProbe();
  if (!tellAll()) return;
  for (const auto& rank : ranks) rank->gpu->makeReady();
}

// ---- The end.

namespace {

// Behind the deadline of what is under way.
constexpr int64_t kReplaysEndNs = 5'000'000'000;
// How long what has failed may take to end when it has begun.
constexpr int64_t kFailedEndNs = 200'000'000;
// How long, when the rest was taken back, streams may take to come to their ends, which callers
// look at.
constexpr int64_t kStreamEndNs = 500'000'000;

}  // namespace

// What was launched ends by itself, by its deadline or because the communicator has failed. Then it
// ends at once, but not before it has begun, for which it may wait as long as other work of the GPU
// takes.
bool Communicator::Impl::gpuIsQuiet() {
  if (gpu->isIdle()) return true;
  if (!failed.load(std::memory_order_acquire)) return false;
  std::unique_lock lock(mutex);
  const std::optional<Error> reason = failure;
  const int64_t end = failedAtNs + kFailedEndNs;
  lock.unlock();
  if (clock.nowNs() < end || !gpu->discard() || gpu->isRunning()) return false;
  if (reason) tellFailure(*reason);  // kernels that do not begin tell nobody
  return true;
}

bool Communicator::Impl::gpuHasLeftStreams() {
  if (!gpuIsQuiet()) return false;
  if (gpu->isIdle()) return true;
  const int64_t now = clock.nowNs();
  int64_t notYet = 0;
  gpuQuietAtNs.compare_exchange_strong(notYet, now);
  return now >= gpuQuietAtNs + kStreamEndNs;
}

// What a graph replays ends by itself too, but no stream tells that it has.
void Communicator::Impl::awaitReplays() {
  const int64_t end = clock.nowNs() + settings.timeoutMs * 1'000'000 + kReplaysEndNs;
  for (base::Backoff backoff(false); gpu->hasGraphs() && gpu->isRunning(); backoff.idle()) {
    if (clock.nowNs() < end) continue;
    base::log(LogLevel::Error, who.self(), ": a replay on ", toString(settings.device),
              " has not ended by its deadline");
    return;
  }
}

void Communicator::Impl::finishGpu() {
  if (!gpu) return;
  try {
    for (base::Backoff backoff(false); !gpuIsQuiet();) backoff.idle();
    awaitReplays();
    gpu->leave();
  } catch (const Error& error) {
    base::log(LogLevel::Error, who.self(), " leaves ", toString(settings.device), ": ",
              error.what());
  }
  communicator::forgetStreams(gpu->group());
}

namespace {

constexpr std::chrono::seconds kPeersLeave{5};

}  // namespace

// Kernels of other processes may still write to this rank's memory: the last thing that they do is
// to give back what they have taken. Who does not leave in time is left with memory that this
// process does not free.
void Communicator::Impl::awaitGpuPeers() {
  if (!gpu || !noGpu.empty()) return;
  std::unique_lock lock(mutex);
  const auto allGone = [&] {
    for (int peer = 0; peer < size; ++peer)
      if (gpu->isRemote(peer) && !peers[peer].left && !peers[peer].lost) return false;
    return true;
  };
  if (changed.wait_for(lock, kPeersLeave, allGone)) return;
  base::log(LogLevel::Warning, who.self(), ": other ranks do not leave; its memory of ",
            toString(settings.device), " is kept");
  gpu.release();
}

// What is launched or replayed later finds memory and words that end it.
void Communicator::Impl::parkGpu() {
  if (!gpu || communicator::GpuParking::mayGo(*gpu)) return;
  base::log(LogLevel::Info, who.self(), " leaves while ",
            gpu->hasGraphs() ? "graphs of its calls are there, which are to be replayed no more"
                             : "a call of it, which has failed, waits for other work of the GPU",
            "; its memory of ", toString(settings.device), " is kept until that is over");
  std::unique_lock lock(mutex);
  auto side = std::move(gpu);
  lock.unlock();
  communicator::GpuParking::ofProcess().add({std::move(side), std::move(gpuPlans)});
}

}  // namespace tutti
