#include "transports/tcp/hub.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <thread>

#include "src/base/check.h"
#include "src/base/log.h"
#include "transports/tcp/endpoint_core.h"

namespace tutti::transports::tcp {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// While somebody drives an endpoint, the thread only looks so often whether he still does.
constexpr int kAttendedMs = 1;
constexpr milliseconds kPatrol{100}, kLookForSilence{500};
// How long what was sent last is given to arrive.
constexpr milliseconds kFarewell{1000};
constexpr int kBacklog = 4096;

}  // namespace

TcpHub::TcpHub(const HubOptions& options)
    : device_(options.device), wake_(TUTTI_SYSCALL(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  std::vector<base::FileDescriptor> listeners;
  listeners.push_back(wire::listenOn(options.place, kBacklog));
  const auto place = wire::localAddress(listeners.back().get());
  TUTTI_ASSERT(place, "a listening socket without an address");
  place_ = *place;
  listener_.emplace(std::move(listeners), wire::HandshakePurpose::Data,
                    [this](const wire::Claim& claim) { return expect(claim); });
  base::logEnabled(LogLevel::Debug);  // what the thread logs with outlives this object
  thread_.start("tutti-tcp", [this] { run(); });
  atExit_.emplace([this](const base::Deadline&) { stop(); });
}

TcpHub::~TcpHub() {
  if (guard_.inForkedChild()) return;
  atExit_.reset();
  stop();
}

void TcpHub::stop() {
  stopping_.store(true);
  wake();
  thread_.finish();
}

void TcpHub::wake() {
  urgent_.store(true);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

// ---- what endpoints ask for

uint64_t TcpHub::openDoor(const std::shared_ptr<EndpointCore>& core, int peer) {
  const std::lock_guard lock(mutex_);
  uint64_t number = 0;
  do {
    wire::fillRandom(std::as_writable_bytes(std::span(&number, 1)));
  } while (!doors_.emplace(number, Door{core, peer}).second);
  return number;
}

void TcpHub::serve(std::weak_ptr<EndpointCore> core) {
  const std::lock_guard lock(mutex_);
  std::erase_if(served_, [](const auto& each) { return each.expired(); });
  std::erase_if(doors_, [](const auto& each) { return each.second.core.expired(); });
  served_.push_back(std::move(core));
}

void TcpHub::linger(std::shared_ptr<EndpointCore> core) {
  {
    const std::lock_guard lock(mutex_);
    lingering_.push_back({std::move(core), Clock::now() + kFarewell});
  }
  wake();
}

std::optional<TcpHub::Door> TcpHub::find(uint64_t door) {
  const std::lock_guard lock(mutex_);
  const auto found = doors_.find(door);
  return found == doors_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::shared_ptr<EndpointCore>> TcpHub::cores() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<EndpointCore>> all;
  for (const auto& each : served_)
    if (auto core = each.lock()) all.push_back(std::move(core));
  return all;
}

// ---- the thread

void TcpHub::run() {
  while (!over()) {
    try {
      step();
    } catch (const std::exception& error) {
      base::log(LogLevel::Error, "transport tcp at ", place_.describe(), ": ", error.what());
      std::this_thread::sleep_for(milliseconds(10));  // it may be so again
    }
  }
  dialing_.clear();
  listener_.reset();
}

bool TcpHub::over() {
  if (!stopping_.load()) return false;
  if (end_ == Clock::time_point{}) end_ = Clock::now() + kFarewell;
  const std::lock_guard lock(mutex_);
  return lingering_.empty() || Clock::now() >= end_;
}

void TcpHub::step() {
  const auto all = cores();
  wire::PollSet set;
  set.add(wake_.get(), POLLIN);
  listener_->watch(set);
  for (const Dialing& each : dialing_)
    if (each.connection) each.connection->watch(set);
  bool attended = false;
  std::vector<std::shared_ptr<EndpointCore>> alone;
  for (const auto& core : all) {
    if (core->isAttended()) {
      attended = true;
      continue;
    }
    set.add(core->events(), POLLIN);
    alone.push_back(core);
  }
  const auto untilPatrol =
      std::chrono::duration_cast<milliseconds>(nextPatrol_ - Clock::now()).count() + 1;
  set.wait(attended ? kAttendedMs
                    : static_cast<int>(std::clamp<int64_t>(untilPatrol, 0, kPatrol.count())));
  uint64_t ignored = 0;
  if (set.happened(wake_.get())) [[maybe_unused]]
    const ssize_t count = ::read(wake_.get(), &ignored, sizeof ignored);
  for (const auto& core : alone)
    if (set.happened(core->events())) core->attend();
  listener_->advance(set);
  admit();
  advanceDials(set);
  if (urgent_.exchange(false) || Clock::now() >= nextPatrol_) patrol(all);
}

void TcpHub::patrol(const std::vector<std::shared_ptr<EndpointCore>>& all) {
  const auto now = Clock::now();
  nextPatrol_ = now + kPatrol;
  const bool looks = now >= nextLook_;
  if (looks) nextLook_ = now + kLookForSilence;
  for (const auto& core : all)
    for (Dial& dial : core->patrol(now, looks)) startDial(core, std::move(dial));
  sweepLingering();
}

void TcpHub::sweepLingering() {
  std::vector<Lingering> all, stay;  // asked and destroyed without the lock
  {
    const std::lock_guard lock(mutex_);
    all.swap(lingering_);
  }
  for (Lingering& each : all)
    if (Clock::now() < each.until && !each.core->settled()) stay.push_back(std::move(each));
  const std::lock_guard lock(mutex_);
  std::ranges::move(stay, std::back_inserter(lingering_));
}

// ---- who comes

wire::Expected TcpHub::expect(const wire::Claim& claim) {
  const auto door = find(DoorClaim::of(claim.job).door);
  const auto core = door ? door->core.lock() : nullptr;
  if (!core || claim.version != wire::kProtocolVersion || claim.rank != door->peer)
    base::fail(ErrorCode::Refused, "rank ", claim.rank, " asks for nobody who is here");
  return core->expected(door->peer);
}

void TcpHub::admit() {
  for (wire::HandshakeConnection& connection : listener_->takeAuthenticated()) {
    const wire::Claim& claim = connection.handshake().claim();
    const DoorClaim asked = DoorClaim::of(claim.job);
    const auto door = find(asked.door);
    const auto core = door ? door->core.lock() : nullptr;
    if (!core || asked.stream == kProbeStream) continue;
    const wire::Key session = connection.handshake().sessionKey();
    core->adopt(door->peer, asked.stream,
                {connection.release(), session, {asked.generation, claim.rank}});
  }
}

// ---- whom endpoints want

void TcpHub::startDial(const std::shared_ptr<EndpointCore>& core, Dial dial) {
  Dialing dialing{.core = core, .dial = std::move(dial), .connection = std::nullopt};
  const Dial& d = dialing.dial;
  try {
    wire::Connecting made = wire::startConnecting(d.place);
    if (made.error != 0)
      dialing.why = std::strerror(made.error);
    else
      dialing.connection.emplace(std::move(made.socket),
                                 wire::Handshake::connecting(
                                     d.credentials, wire::HandshakePurpose::Data, d.claim, d.peer));
  } catch (const Error& error) {
    return core->cannotDial(d.peer, error);
  }
  dialing_.push_back(std::move(dialing));
}

void TcpHub::advanceDials(const wire::PollSet& set) {
  for (auto next = dialing_.begin(); next != dialing_.end();) {
    const auto each = next++;
    const auto core = each->core.lock();
    if (core && each->connection) {
      try {
        each->connection->advance(set);
        // What is to be said goes only when there is a connection.
        if (!each->reached && each->connection->flushed() && !each->connection->ended()) {
          each->reached = true;
          core->dialReached(each->dial.peer, each->dial.stream);
        }
        if (each->connection->authenticated() && each->connection->flushed()) {
          const wire::Key session = each->connection->handshake().sessionKey();
          core->adopt(each->dial.peer, each->dial.stream,
                      {each->connection->release(), session, each->dial.name});
          dialing_.erase(each);
          continue;
        }
        if (each->connection->ended())
          each->why = each->connection->error() != 0 ? std::strerror(each->connection->error())
                                                     : "it does not expect this rank";
      } catch (const Error& error) {
        each->why = error.what();
      }
    }
    const bool late = each->connection && Clock::now() - each->connection->since() >=
                                              wire::HandshakeListener::kHandshakeTime;
    const bool isSilent = late && each->why.empty();
    if (isSilent) each->why = "no answer";
    if (core && each->why.empty()) continue;
    if (core) core->dialFailed(each->dial.peer, each->dial.stream, each->why, isSilent);
    dialing_.erase(each);
  }
}

std::shared_ptr<TcpHub> makeHub(const HubOptions& options) {
  return std::make_shared<TcpHub>(options);
}

}  // namespace tutti::transports::tcp
