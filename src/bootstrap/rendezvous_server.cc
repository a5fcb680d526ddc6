#include "src/bootstrap/rendezvous_server.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>

#include "src/base/log.h"
#include "src/base/printable.h"
#include "src/base/process.h"
#include "src/bootstrap/network_interface.h"
#include "src/bootstrap/roster.h"
#include "src/bootstrap/wire/setup_connection.h"
#include "src/wire/handshake_listener.h"

namespace tutti::bootstrap {
namespace {

using Time = std::chrono::steady_clock;
constexpr int kBacklog = 4096;
constexpr std::chrono::milliseconds kFlushTime{500};
constexpr std::chrono::milliseconds kProgressEvery{200};
constexpr std::chrono::milliseconds kStep{100};

}  // namespace

struct RendezvousServer::State {
  State(const Rendezvous& wanted, std::chrono::milliseconds least)
      : point(wanted), roster(point), lifetime(least), end(Time::now() + least) {
    std::vector<base::FileDescriptor> listeners;
    listeners.push_back(wire::listenOn(point.address, kBacklog));
    if (point.network) {
      listeners.push_back(wire::listenOn(*point.network, kBacklog));
      point.network = wire::localAddress(listeners.back().get());
      interface = interfaceWith(*point.network, interfacesUp());
    }
    listener.emplace(std::move(listeners), point.credentials, wire::HandshakePurpose::Rendezvous,
                     -1);
  }

  struct Guest {
    SetupConnection connection;
    int rank = -1;  // -1: it has not said Arrival, or was refused
    bool ofThisProcess = false;
    bool connected = false;  // said Connected
    bool leaving = false;    // is told why, and then closed
    std::string told;        // the progress that it knows
  };

  void run();
  void step();
  bool over() const;
  void serve(Guest& guest);
  void onArrival(Guest& guest, const Arrival& arrival);
  void onConnected(Guest& guest);
  void onFailure(Guest& guest, const Failure& failure);
  void fail(const Failure& failure, bool isRefusal = false);
  void noteTold(const wire::Claim& claim);
  bool allTold() const;
  void tell(const SetupMessage& message);
  std::string progress() const;
  std::string unconnected() const;
  void tellProgress();
  void sweep();

  Rendezvous point;
  std::optional<wire::HandshakeListener> listener;
  std::string interface;  // with point.network
  Roster roster;
  std::vector<Guest> guests;
  std::chrono::milliseconds lifetime;
  Time::time_point end;  // when the server gives up, or, when it is over, goes away
  Time::time_point nextProgress{};
  int connected = 0;
  bool complete = false;
  std::optional<Failure> failure;
  std::atomic<bool> refused{false};  // by a rank that cannot take part: the failure
  // Then: who has heard of it, or said it, by rank; how many more, who do not know theirs; and of
  // how many, 0 as long as none has said so.
  std::set<int> told;
  int toldMore = 0, toldOf = 0;
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::condition_variable ended;
  bool finished = false;  // under mutex
  base::ProcessGuard guard;
};

void RendezvousServer::State::run() {
  try {
    while (!over()) step();
  } catch (const std::exception& error) {
    base::log(LogLevel::Error, "the rendezvous failed: ", error.what());
  }
  guests.clear();
  listener.reset();  // the address is free from now on
  std::lock_guard lock(mutex);
  finished = true;
  ended.notify_all();
}

bool RendezvousServer::State::over() const {
  const bool flushed = std::all_of(guests.begin(), guests.end(), [](const Guest& guest) {
    return guest.connection.flushed() || guest.connection.ended();
  });
  if (Time::now() >= end && (complete || failure)) return true;
  return flushed && (complete || (failure && (stop.load() || (refused.load() && allTold()))));
}

void RendezvousServer::State::step() {
  wire::PollSet set;
  listener->watch(set);
  for (const Guest& guest : guests) guest.connection.watch(set);
  set.wait(wire::HandshakeListener::kPatrolMs);
  listener->advance(set);
  for (wire::HandshakeConnection& known : listener->takeAuthenticated())
    guests.push_back({.connection = {std::move(known), SetupConnection::Side::Accepting}});
  // Serving one guest changes none of the others but by sending, so the order does not matter.
  for (Guest& guest : guests) {
    try {
      guest.connection.advance(set);
      serve(guest);
    } catch (const Error& error) {
      base::log(LogLevel::Info, "set-up: dropped rank ", guest.rank, ": ", error.what());
      guest.leaving = true;
      if (guest.rank >= 0)
        fail({.code = ErrorCode::Refused,
              .text = roster.describe(guest.rank) + ": " + error.what()});
    }
  }
  sweep();
  if (stop.load())
    fail({.code = ErrorCode::Refused, .text = "the process that opened the rendezvous gave up"});
  if (Time::now() >= end)
    fail({.code = ErrorCode::Timeout,
          .text = base::message("set-up was not complete after ", lifetime.count(),
                                " ms: ", progress())});
  tellProgress();
}

void RendezvousServer::State::serve(Guest& guest) {
  while (std::optional<SetupMessage> message = guest.connection.receive()) {
    if (guest.leaving) continue;
    if (const auto* arrival = std::get_if<Arrival>(&*message); arrival && guest.rank < 0)
      onArrival(guest, *arrival);
    else if (std::holds_alternative<Connected>(*message) && roster.complete() && guest.rank >= 0)
      onConnected(guest);
    else if (const auto* why = std::get_if<Failure>(&*message))
      onFailure(guest, {.code = why->code, .text = base::printable(why->text)});
    else
      base::fail(ErrorCode::Refused, "an unexpected set-up message");
  }
}

void RendezvousServer::State::onArrival(Guest& guest, const Arrival& arrival) {
  const wire::Claim& claim = guest.connection.handshake().claim();
  if (failure && claim.job == point.credentials.job) {  // late: it is told why the job failed
    guest.connection.send(*failure);
    guest.leaving = true;
    noteTold(claim);
    return;
  }
  const Roster::Decision decision = roster.admit(claim, arrival);
  if (decision.verdict != Roster::Verdict::Welcome) {
    guest.connection.send(decision.why);
    guest.leaving = true;
    if (decision.verdict == Roster::Verdict::RefuseAll) fail(decision.why);
    return;
  }
  guest.rank = claim.rank;
  guest.ofThisProcess = arrival.info.pid == ::getpid();
  if (roster.complete()) tell(roster.table());
}

void RendezvousServer::State::onConnected(Guest& guest) {
  if (std::exchange(guest.connected, true)) return;
  if (++connected < roster.size() || failure) return;
  tell(Complete{});
  complete = true;
  end = Time::now() + kFlushTime;
}

/// Of a rank that has arrived, or of one that is missing and will not. Another job's, and a second
/// process of a rank that is there, end nothing.
void RendezvousServer::State::onFailure(Guest& guest, const Failure& why) {
  if (guest.rank >= 0)
    return fail({.code = why.code, .text = roster.describe(guest.rank) + ": " + why.text});
  guest.leaving = true;
  const wire::Claim& claim = guest.connection.handshake().claim();
  if (!roster.lacks(claim)) {
    base::log(LogLevel::Info, "set-up: not of a missing rank: ", why.text);
    return;
  }
  const auto last = end;
  if (!failure) {
    toldOf = roster.size();
    for (const Guest& other : guests)
      if (other.rank >= 0) told.insert(other.rank);
    fail(why, true);
    end = last;
  }
  noteTold(claim);
  guest.connection.send(*failure);
}

void RendezvousServer::State::noteTold(const wire::Claim& claim) {
  toldOf = std::max(toldOf, claim.size);
  if (claim.rank < 0)
    ++toldMore;
  else
    told.insert(claim.rank);
}

bool RendezvousServer::State::allTold() const {
  return toldOf > 0 && std::cmp_greater_equal(told.size() + toldMore, toldOf);
}

void RendezvousServer::State::fail(const Failure& why, bool isRefusal) {
  if (failure || complete) return;
  failure = why;
  refused.store(isRefusal);  // from here on others may read the failure
  tell(why);
  end = Time::now() + kLinger;
}

void RendezvousServer::State::tell(const SetupMessage& message) {
  // Ranks of this process come last: they may end it as soon as they have heard.
  for (const bool ofThisProcess : {false, true})
    for (Guest& guest : guests)
      if (guest.rank >= 0 && !guest.leaving && guest.ofThisProcess == ofThisProcess)
        guest.connection.send(message);
}

std::string RendezvousServer::State::progress() const {
  std::string text = roster.progress();
  if (roster.complete()) return text + unconnected();
  if (isLoopback(point.address)) text += kLoopbackRendezvous;
  if (point.network)
    text += base::message("; other hosts reach the rendezvous at ", point.network->describe(), " (",
                          describeInterface(interface, interfaceVariable()),
                          "); TUTTI_INTERFACE, set on its host, names another interface");
  return text;
}

/// "; not connected to all others: 0, 1 and 3 more"
std::string RendezvousServer::State::unconnected() const {
  std::vector<int> ranks;
  for (const Guest& guest : guests)
    if (guest.rank >= 0 && !guest.connected) ranks.push_back(guest.rank);
  std::ranges::sort(ranks);
  return ranks.empty() ? "" : "; not connected to all others: " + listRanks(ranks);
}

void RendezvousServer::State::tellProgress() {
  if (failure || roster.complete() || Time::now() < nextProgress) return;
  nextProgress = Time::now() + kProgressEvery;
  const std::string now = progress();
  for (Guest& guest : guests)
    if (guest.rank >= 0 && guest.told != now) {
      guest.connection.send(SetupProgress{now});
      guest.told = now;
    }
}

void RendezvousServer::State::sweep() {
  const auto gone = [](const Guest& guest) {
    return guest.connection.ended() || (guest.leaving && guest.connection.flushed());
  };
  for (const Guest& guest : guests)
    if (guest.connection.ended() && guest.rank >= 0)
      fail({.code = ErrorCode::PeerLost,
            .text = roster.describe(guest.rank) + " ended during set-up"});
  std::erase_if(guests, gone);
}

RendezvousServer::RendezvousServer(const Rendezvous& point, std::chrono::milliseconds lifetime)
    : state_(std::make_shared<State>(point, lifetime)) {
  base::logEnabled(LogLevel::Debug);  // what the thread logs with outlives this object
  base::ServiceThread::startAlone("tutti-set-up", [state = state_] { state->run(); });
}

RendezvousServer::~RendezvousServer() {
  if (state_->guard.inForkedChild()) {
    base::abandon(std::move(state_));
    return;
  }
  state_->stop.store(true);  // seen at the next patrol
  std::unique_lock lock(state_->mutex);
  state_->ended.wait(lock, [&] { return state_->finished; });
}

void RendezvousServer::awaitAllTold(base::Deadline deadline, const std::stop_token& stop) const {
  if (!state_->refused.load()) return;
  std::unique_lock lock(state_->mutex);
  const auto ended = [&](std::chrono::milliseconds within) {
    return state_->ended.wait_for(lock, within, [&] { return state_->finished; });
  };
  if (ended(kStep)) return;
  base::log(LogLevel::Error, state_->failure->text,
            "; ranks that have not come yet are told when they come");
  while (!deadline.passed() && !stop.stop_requested() && !ended(kStep)) {
  }
}

const Rendezvous& RendezvousServer::point() const { return state_->point; }

bool RendezvousServer::finished() const {
  std::lock_guard lock(state_->mutex);
  return state_->finished;
}

}  // namespace tutti::bootstrap
