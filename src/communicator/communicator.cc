// The public class: life and death of a communicator, and what it is made of.

#include <tutti/communicator.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <span>
#include <utility>

#include "src/base/check.h"
#include "src/base/integers.h"
#include "src/base/log.h"
#include "src/base/process.h"
#include "src/bootstrap/bootstrap.h"
#include "src/communicator/endpoints.h"
#include "src/communicator/inspection.h"
#include "src/communicator/local.h"
#include "src/communicator/operations.h"
#include "src/communicator/state.h"

namespace tutti {

using communicator::CallFacts;
using communicator::Settings;
using communicator::SharedWindows;
using communicator::SplitVote;
using communicator::World;
using plan::Collective;

namespace {

/// Of ranks that are all in this process.
uint64_t nextLocalJob() {
  static std::atomic<uint64_t> made{0};
  return base::mixBits(static_cast<uint64_t>(::getpid()) << 32 ^ made.fetch_add(1));
}

uint64_t jobOf(const bootstrap::Identity& identity) {
  if (identity.size == 1) return nextLocalJob();
  return communicator::numberOfJob(identity.id);
}

base::Deadline setupDeadline(const Settings& settings) {
  return base::Deadline::after(std::chrono::milliseconds(settings.setupTimeoutMs));
}

}  // namespace

Communicator::Communicator(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::~Communicator() {
  if (impl_ && impl_->who.inForkedChild()) base::abandon(std::move(impl_));
}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&& other) noexcept {
  Communicator old(std::move(*this));
  impl_ = std::move(other.impl_);
  return *this;
}

// A rank whose settings cannot be comes to the others all the same, to tell them why there will be
// no communicator: they would wait for it, and then know nothing but that it has not come.
Communicator Communicator::create(const CommunicatorOptions& options) {
  const bootstrap::Identity identity = bootstrap::discover(options);
  Settings settings;
  std::optional<Error> refusal;
  try {
    if (identity.malformed) throw Error(*identity.malformed);
    settings = Settings::from(options);
    settings.algorithmFile = communicator::ownAlgorithmFile(options.algorithmFile);
    if (identity.rank == 0) settings.tuning = communicator::ownTuning();
  } catch (const Error& e) {
    if (identity.size == 1) throw;
    refusal = e;
    settings.setupTimeoutMs = communicator::setupTimeoutOf(options);
    base::log(LogLevel::Error, identity.describe(), ": ", e.what());
  }
  const base::Deadline deadline = setupDeadline(settings);
  std::shared_ptr<World> world;
  try {
    auto plane = bootstrap::join(identity, deadline, {.stop = options.stop});
    world = std::make_shared<World>(jobOf(identity), std::move(plane), nullptr);
  } catch (const Error&) {
    if (refusal) throw Error(*refusal);
    throw;
  }
  auto impl = std::make_shared<Impl>(communicator::Membership::ofJob(std::move(world)), settings);
  const std::stop_callback stopped(options.stop, [&made = *impl] {  // which the result owns
    made.stopSetup();
  });
  if (refusal) impl->refuse(*refusal);
  impl->connect(deadline);
  return Communicator(std::move(impl));
}

std::vector<Communicator> Communicator::createLocal(int size, const CommunicatorOptions& options) {
  const Settings settings = Settings::from(options);
  const std::string& transport = settings.transport;
  const topology::Topology oneHost{.ranks = size};
  return communicator::makeLocal(size, options, [&](int rank) {
    const bool networked = communicator::needsNetwork(oneHost, transport);
    return communicator::makeEndpoint(
        rank, oneHost, transport,
        networked ? communicator::makeLocalNetwork(transport, settings) : nullptr);
  });
}

namespace communicator {

std::vector<Communicator> makeLocal(
    int size, const CommunicatorOptions& options,
    const std::function<std::unique_ptr<transports::Endpoint>(int rank)>& makeEndpoint,
    std::vector<std::shared_ptr<bootstrap::ControlPlane>> planes) {
  TUTTI_REQUIRE(size >= 1 && size <= 16384, "a communicator has 1 to 16384 ranks, not ", size);
  Settings settings = Settings::from(options);
  settings.algorithmFile = ownAlgorithmFile(options.algorithmFile);
  settings.tuning = ownTuning();
  TUTTI_REQUIRE(options.devices.empty() || std::cmp_equal(options.devices.size(), size),
                options.devices.size(), " devices for ", size, " ranks");
  std::vector<std::shared_ptr<Communicator::Impl>> impls;
  std::vector<std::unique_ptr<transports::Endpoint>> endpoints;
  if (planes.empty()) planes = bootstrap::makeLocalControlPlanes(size);
  const auto windows = std::make_shared<SharedWindows>();
  const uint64_t job = nextLocalJob();
  for (int r = 0; r < size; ++r) {
    auto world = std::make_shared<World>(job, std::move(planes[r]), windows);
    if (!options.devices.empty()) settings.device = options.devices[r];
    impls.push_back(
        std::make_shared<Communicator::Impl>(Membership::ofJob(std::move(world)), settings));
    if (size > 1) endpoints.push_back(makeEndpoint(r));
  }
  if (size == 1)
    impls[0]->connect(setupDeadline(settings));
  else
    Communicator::Impl::connectLocal(impls, std::move(endpoints));
  std::vector<Communicator> communicators;
  for (auto& impl : impls) communicators.emplace_back(std::move(impl));
  return communicators;
}

}  // namespace communicator

const topology::Topology& communicator::Inspection::topology(const Communicator& c) {
  return c.impl_->links.topology();
}
const topology::Tuning& communicator::Inspection::tuning(const Communicator& c) {
  return c.impl_->settings.tuning;
}

const collectives::AlgorithmFile* communicator::Inspection::algorithmFile(const Communicator& c) {
  return c.impl_->settings.algorithmFile.get();
}

uint64_t communicator::Inspection::identity(const Communicator& c) {
  return base::mixBits(c.impl_->who.world()->job ^ c.impl_->who.id());
}

uint64_t communicator::Inspection::bytesReceived(const Communicator& c) {
  return c.impl_->host.bytesReceived();
}

uint64_t communicator::Inspection::shortRuns(const Communicator& c) {
  return c.impl_->host.shortRuns();
}
const plan::PlanSpec* communicator::Inspection::lastSpec(const Communicator& c) {
  const Communicator::Impl& impl = *c.impl_;
  return impl.settings.device.kind == DeviceKind::Host ? impl.host.lastSpec() : impl.gpu.lastSpec();
}

int communicator::Inspection::addressableRanks(const Communicator& c) {
  const Communicator::Impl& impl = *c.impl_;
  const bool onGpu = impl.settings.device.kind != DeviceKind::Host;
  const auto together = [&](int one, int other) {
    if (!onGpu) return impl.who.info(one).bootId == impl.who.info(other).bootId;
    return impl.oneSided.gpusAddressEachOther() &&
           !remotePeers(one, impl.links.topology(), impl.settings.transport)[other];
  };
  const int size = impl.who.size();
  for (int block = size; block > 1; --block) {
    bool fits = size % block == 0;
    for (int rank = 0; rank < size && fits; ++rank) fits = together(rank, rank - rank % block);
    if (fits) return block;
  }
  return 1;
}

bool communicator::Inspection::hasFailedCalls(const Communicator& c) {
  const communicator::GpuRank* const gpu = c.impl_->gpu.rank();
  return c.impl_->failure.wasThrown() || (gpu && gpu->hasLostCalls());
}

bool communicator::Inspection::gpuHasLeftStreams(const Communicator& c) {
  if (c.impl_->failure.hasFailed() && !c.impl_->oneSided.isQuiet()) return false;
  return c.impl_->gpu.hasLeftStreams();
}

int Communicator::rank() const { return impl_->who.rank(); }
int Communicator::size() const { return impl_->who.size(); }
const std::vector<int>& Communicator::hosts() const { return impl_->links.topology().hostOf; }
Device Communicator::device() const { return impl_->settings.device; }
bool Communicator::deterministic() const { return impl_->settings.deterministic; }

Memory Communicator::allocate(size_t size) {
  impl_->host.requireUsable();
  return impl_->who.world()->windows->allocate(size, impl_->who.world());
}

namespace {

/// Marks memory whose owner is a segment.
struct DeleteSegment {
  void operator()(transports::shm::Segment* segment) const { delete segment; }
};

}  // namespace

Memory allocateShareable(size_t bytes) {
  if (bytes == 0) return {};
  using transports::shm::Segment;
  const std::shared_ptr<Segment> segment(
      new Segment(Segment::create(bytes, "memory of allocateShareable")), DeleteSegment());
  return {segment->data(), bytes, segment};
}

Memory Communicator::share(const Memory& memory) {
  impl_->host.requireUsable();
  TUTTI_REQUIRE(std::get_deleter<DeleteSegment>(memory.owner()),
                "share() wants memory of allocateShareable()");
  return impl_->who.world()->windows->share(
      std::static_pointer_cast<transports::shm::Segment>(memory.owner()), memory.bytes(),
      impl_->who.world());
}

namespace {

/// What every rank says, by rank.
std::vector<SplitVote> votesOf(Communicator& c, int color, int key) {
  const SplitVote mine{color, key};
  static_assert(sizeof mine == 16);
  std::vector<SplitVote> votes(static_cast<size_t>(c.size()));
  c.allGather({.send = std::as_bytes(std::span(&mine, 1)),
               .recv = std::as_writable_bytes(std::span(votes)),
               .type = DataType::Int64});
  return votes;
}

}  // namespace

std::optional<Communicator> Communicator::split(int color, int key) {
  if (communicator::groupIsOpen())
    base::fail(ErrorCode::InvalidUsage, "split() cannot be part of a group");
  auto impl = impl_->splitBy(votesOf(*this, color, key));
  return impl ? std::optional(Communicator(std::move(impl))) : std::nullopt;
}

// Beside an aborted one it takes another of the same ranks, which is gone when this returns. On
// GPUs memory would be freed with it, and CUDA waits then for the kernels of ranks that have
// returned and wait for this one.
std::optional<Communicator> communicator::Inspection::splitAborted(Communicator& c, int color,
                                                                   int key) {
  std::vector<int> all(static_cast<size_t>(c.size()));
  std::iota(all.begin(), all.end(), 0);
  Settings onHost = c.impl_->settings;
  onHost.device = {};
  Communicator between(c.impl_->subset(all, onHost));
  auto impl = c.impl_->splitBy(votesOf(between, color, key));
  return impl ? std::optional(Communicator(std::move(impl))) : std::nullopt;
}

std::shared_ptr<Communicator::Impl> Communicator::Impl::splitBy(
    const std::vector<SplitVote>& said) {
  const uint32_t number = children.countSplit();
  const int64_t color = said[who.rank()].color;
  if (color < 0) return nullptr;
  std::vector<int> chosen;  // ranks of this communicator
  for (int r = 0; r < who.size(); ++r)
    if (said[r].color == color) chosen.push_back(r);
  std::stable_sort(chosen.begin(), chosen.end(),
                   [&](int a, int b) { return said[a].key < said[b].key; });
  auto impl = std::make_shared<Impl>(who.part(chosen, children.idOfSplit(number, color)), settings);
  impl->connect(setupDeadline(settings));
  return impl;
}

Communicator Communicator::subset(std::span<const int> ranks) {
  if (impl_->who.inForkedChild()) throw communicator::Membership::usedAfterFork();
  if (communicator::groupIsOpen())
    base::fail(ErrorCode::InvalidUsage, "subset() cannot be part of a group");
  return Communicator(impl_->subset(ranks, impl_->settings));
}

std::shared_ptr<Communicator::Impl> Communicator::Impl::subset(std::span<const int> ranks,
                                                               const Settings& its) {
  int last = -1;
  for (const int member : ranks) {
    TUTTI_REQUIRE(member > last && member < who.size(), "subset: rank ", member, " after ", last,
                  " is not in ascending order, or not a rank of 0..", who.size() - 1);
    last = member;
  }
  TUTTI_REQUIRE(std::ranges::find(ranks, who.rank()) != ranks.end(), "subset: rank ", who.rank(),
                " calls and is not in it");
  const base::Deadline deadline = setupDeadline(its);
  if (failure.hasFailed()) awaitQuiet(deadline);
  const uint64_t id = children.nextSubset(who.inWorld(ranks));
  auto impl = std::make_shared<Impl>(who.part(ranks, id), its);
  impl->connect(deadline);
  return impl;
}

struct SuspendedCommunicator::Impl {
  communicator::Membership who;
  Settings settings;
};

SuspendedCommunicator::SuspendedCommunicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SuspendedCommunicator::~SuspendedCommunicator() {
  if (impl_ && impl_->who.inForkedChild()) base::abandon(std::move(impl_));
}
SuspendedCommunicator::SuspendedCommunicator(SuspendedCommunicator&&) noexcept = default;
SuspendedCommunicator& SuspendedCommunicator::operator=(SuspendedCommunicator&&) noexcept = default;

SuspendedCommunicator Communicator::suspend() && {
  if (communicator::groupIsOpen())
    base::fail(ErrorCode::InvalidUsage, "suspend() cannot be part of a group");
  if (impl_->oneSided.hasBuffers())
    base::fail(ErrorCode::InvalidUsage, impl_->who.self(),
               ": suspend() needs a communicator without windows: give them back first");
  impl_->host.requireUsable();
  std::vector<int> all(static_cast<size_t>(size()));
  std::iota(all.begin(), all.end(), 0);
  const uint64_t id = impl_->children.nextSubset(impl_->who.inWorld(all));
  auto kept = std::make_unique<SuspendedCommunicator::Impl>(
      SuspendedCommunicator::Impl{impl_->who.part(all, id), impl_->settings});
  impl_.reset();
  return SuspendedCommunicator(std::move(kept));
}

Communicator SuspendedCommunicator::resume(std::stop_token stop) {
  if (!impl_) base::fail(ErrorCode::InvalidUsage, "resume() was called before");
  if (impl_->who.inForkedChild()) throw communicator::Membership::usedAfterFork();
  const std::unique_ptr<Impl> kept = std::move(impl_);
  auto impl = std::make_shared<Communicator::Impl>(std::move(kept->who), kept->settings);
  const std::stop_callback stopped(std::move(stop), [&made = *impl] { made.stopSetup(); });
  impl->connect(setupDeadline(kept->settings));
  return Communicator(std::move(impl));
}

CommunicatorMemory Communicator::memory() const {
  const transports::Endpoint* const endpoint = impl_->links.endpoint();
  const communicator::GpuRank* const gpu = impl_->gpu.rank();
  return {.host = (endpoint ? endpoint->memoryBytes() : 0) + impl_->oneSided.memoryBytes() +
                  (gpu ? gpu->hostMemoryBytes() : 0),
          .device = gpu ? gpu->memoryBytes() : 0};
}

void Communicator::abort() {
  if (impl_->who.inForkedChild()) return;  // nothing runs here that could be ended
  const Error error(ErrorCode::Aborted, "abort() was called by " + impl_->who.self());
  impl_->failure.fail(error, false);
  // Also when this rank had failed before: not every failure was told.
  if (!impl_->failure.passOn()) impl_->failure.tell(error);
}

std::optional<Error> Communicator::asyncError() const {
  if (impl_->who.inForkedChild()) return communicator::Membership::usedAfterFork();
  return impl_->failure.reason();
}

std::string Communicator::describe() const {
  if (impl_->who.inForkedChild()) throw communicator::Membership::usedAfterFork();
  std::string text = base::message("communicator ", std::hex, impl_->who.id(), std::dec, ": rank ",
                                   rank(), " of ", size(), "\n");
  for (int r = 0; r < size(); ++r) {
    text += base::message("  ", impl_->who.name(r));
    if (r != rank()) text += base::message(" by ", impl_->links.endpoint()->name(r));
    if (communicator::GpuJoin* const join = impl_->gpu.join())
      text += base::message(", ", join->describe(r));
    text += "\n";
  }
  if (impl_->links.attached()) text += "  ranks of one host read each other's memory\n";
  return text + impl_->recorded(SIZE_MAX) + impl_->oneSided.describe();
}

}  // namespace tutti
