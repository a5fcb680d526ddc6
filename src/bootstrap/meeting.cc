#include "src/bootstrap/meeting.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "src/base/log.h"
#include "src/base/printable.h"
#include "src/bootstrap/network_interface.h"

namespace tutti::bootstrap {
namespace {

constexpr std::chrono::milliseconds kFlushTime{500};
constexpr std::chrono::milliseconds kProgressEvery{200};
constexpr std::chrono::milliseconds kStep{100};

}  // namespace

Meeting::Meeting(const Rendezvous& point, std::string interface, std::chrono::milliseconds lifetime,
                 const ExistingRanks& existing)
    : point_(point),
      interface_(std::move(interface)),
      roster_(point, existing),
      lifetime_(lifetime),
      end_(Time::now() + lifetime) {}

void Meeting::admit(wire::HandshakeConnection known) {
  guests_.push_back({.connection = {std::move(known), SetupConnection::Side::Accepting}});
}

void Meeting::watch(wire::PollSet& set) const {
  for (const Guest& guest : guests_) guest.connection.watch(set);
}

void Meeting::advance(const wire::PollSet& set) {
  // Serving one guest changes none of the others but by sending, so the order does not matter.
  for (Guest& guest : guests_) {
    try {
      guest.connection.advance(set);
      serve(guest);
    } catch (const Error& error) {
      base::log(LogLevel::Info, "set-up: dropped rank ", guest.rank, ": ", error.what());
      guest.leaving = true;
      if (guest.rank >= 0)
        fail({.code = ErrorCode::Refused,
              .text = roster_.describe(guest.rank) + ": " + error.what()});
    }
  }
  sweep();
  completeIfSettled();
  dismissLate();
  failIfGivenUp();
  if (stop_.load())
    fail({.code = ErrorCode::Refused, .text = "the process that opened the rendezvous gave up"});
  if (Time::now() >= end_)
    fail({.code = ErrorCode::Timeout,
          .text = base::message("set-up was not complete after ", lifetime_.count(),
                                " ms: ", progress())});
  tellProgress();
}

bool Meeting::over() const {
  const bool flushed = std::all_of(guests_.begin(), guests_.end(), [](const Guest& guest) {
    return guest.connection.flushed() || guest.connection.ended();
  });
  if (Time::now() >= end_ && (complete_ || failure_)) return true;
  return flushed && (complete_ || (failure_ && (stop_.load() || (refused_.load() && allTold()))));
}

void Meeting::finish() {
  std::lock_guard lock(mutex_);
  finished_ = true;
  ended_.notify_all();
}

void Meeting::giveUp(const Failure& why) {
  const std::lock_guard lock(mutex_);
  if (!givenUp_) givenUp_ = why;
}

void Meeting::failIfGivenUp() {
  std::optional<Failure> why;
  {
    const std::lock_guard lock(mutex_);
    why = givenUp_;
  }
  if (why) fail(*why);
}

std::optional<Failure> Meeting::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool Meeting::finished() const {
  std::lock_guard lock(mutex_);
  return finished_;
}

void Meeting::awaitFinish() const {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return finished_; });
}

void Meeting::awaitAllTold(base::Deadline deadline, const std::stop_token& stop) const {
  if (!refused_.load() || roster_.grows()) return;
  std::unique_lock lock(mutex_);
  const auto ended = [&](std::chrono::milliseconds within) {
    return ended_.wait_for(lock, within, [&] { return finished_; });
  };
  if (ended(kStep)) return;
  base::log(LogLevel::Error, failure_->text,
            "; ranks that have not come yet are told when they come");
  while (!deadline.passed() && !stop.stop_requested() && !ended(kStep)) {
  }
}

void Meeting::serve(Guest& guest) {
  while (std::optional<SetupMessage> message = guest.connection.receive()) {
    if (guest.leaving) continue;
    if (const auto* arrival = std::get_if<Arrival>(&*message); arrival && guest.rank < 0)
      onArrival(guest, *arrival);
    else if (std::holds_alternative<Connected>(*message) && roster_.complete() && guest.rank >= 0)
      onConnected(guest);
    else if (const auto* why = std::get_if<Failure>(&*message))
      onFailure(guest, {.code = why->code, .text = base::printable(why->text)});
    else
      base::fail(ErrorCode::Refused, "an unexpected set-up message");
  }
}

void Meeting::onArrival(Guest& guest, const Arrival& arrival) {
  const wire::Claim& claim = guest.connection.handshake().claim();
  if (failure_ && claim.job == point_.credentials.job) {  // late: it is told why the job failed
    guest.connection.send(*failure_);
    guest.leaving = true;
    noteTold(claim);
    return;
  }
  const Roster::Decision decision = roster_.admit(claim, arrival);
  if (decision.verdict != Roster::Verdict::Welcome) {
    guest.connection.send(decision.why);
    guest.leaving = true;
    if (decision.verdict == Roster::Verdict::RefuseAll) fail(decision.why);
    return;
  }
  guest.rank = claim.rank;
  guest.ofThisProcess = arrival.info.pid == ::getpid();
  if (roster_.complete()) tell(roster_.table());
}

void Meeting::onConnected(Guest& guest) {
  if (std::exchange(guest.connected, true)) return;
  if (++connected_ < roster_.size()) return;
  settled_ = Time::now();
  if (point_.mayBeAnothersToo) *settled_ += kSettleTime;
}

void Meeting::completeIfSettled() {
  if (!settled_ || Time::now() < *settled_ || failure_ || complete_) return;
  tell(Complete{});
  complete_ = true;
  end_ = Time::now() + kFlushTime;
}

/// Who has not said who it is when set-up is complete is none of the ranks. At rank 0's address it
/// may be another job's, and hears that as its answer.
void Meeting::dismissLate() {
  if (!complete_ || point_.openedByRankZero) return;
  for (Guest& guest : guests_) {
    if (guest.rank >= 0 || guest.leaving) continue;
    guest.connection.send(Failure{.code = ErrorCode::Refused,
                                  .text = "all ranks are there already: the id was used"});
    guest.leaving = true;
  }
}

/// Of a rank that has arrived, or of one that is missing and will not. Another job's, and a second
/// process of a rank that is there, end nothing.
void Meeting::onFailure(Guest& guest, const Failure& why) {
  if (guest.rank >= 0)
    return fail({.code = why.code, .text = roster_.describe(guest.rank) + ": " + why.text});
  guest.leaving = true;
  const wire::Claim& claim = guest.connection.handshake().claim();
  if (!roster_.lacks(claim)) {
    base::log(LogLevel::Info, "set-up: not of a missing rank: ", why.text);
    return;
  }
  const auto last = end_;
  if (!failure_) {
    toldOf_ = roster_.size();
    for (const Guest& other : guests_)
      if (other.rank >= 0) told_.insert(other.rank);
    fail(why, true);
    end_ = last;
  }
  noteTold(claim);
  guest.connection.send(*failure_);
}

void Meeting::noteTold(const wire::Claim& claim) {
  toldOf_ = std::max(toldOf_, claim.size);
  if (claim.rank < 0)
    ++toldMore_;
  else
    told_.insert(claim.rank);
}

bool Meeting::allTold() const {
  return toldOf_ > 0 && std::cmp_greater_equal(told_.size() + toldMore_, toldOf_);
}

void Meeting::fail(const Failure& why, bool isRefusal) {
  if (failure_ || complete_) return;
  {
    const std::lock_guard lock(mutex_);
    failure_ = why;
  }
  refused_.store(isRefusal);  // from here on others may read the failure
  tell(why);
  for (Guest& guest : guests_)  // they are about to say who they are
    if (guest.rank < 0 && !guest.leaving) guest.connection.send(why);
  const auto lingers = Time::now() + kLinger;
  end_ = roster_.grows() ? std::max(end_, lingers) : lingers;
}

void Meeting::tell(const SetupMessage& message) {
  // Ranks of this process come last: they may end it as soon as they have heard.
  for (const bool ofThisProcess : {false, true})
    for (Guest& guest : guests_)
      if (guest.rank >= 0 && !guest.leaving && guest.ofThisProcess == ofThisProcess)
        guest.connection.send(message);
}

std::string Meeting::progress() const {
  std::string text = roster_.progress();
  if (roster_.complete()) return text + unconnected();
  if (isLoopback(point_.address)) text += kLoopbackRendezvous;
  if (point_.network)
    text += base::message("; other hosts reach the rendezvous at ", point_.network->describe(),
                          " (", describeInterface(interface_, interfaceVariable()),
                          "); TUTTI_INTERFACE, set on its host, names another interface");
  return text;
}

/// "; not connected to all others: 0, 1 and 3 more"
std::string Meeting::unconnected() const {
  std::vector<int> ranks;
  for (const Guest& guest : guests_)
    if (guest.rank >= 0 && !guest.connected) ranks.push_back(guest.rank);
  std::ranges::sort(ranks);
  return ranks.empty() ? "" : "; not connected to all others: " + listRanks(ranks);
}

/// Also where nothing is new: whoever hears nothing knows that this process does not run.
void Meeting::tellProgress() {
  const auto now = Time::now();
  if (failure_ || complete_ || now < nextProgress_) return;
  nextProgress_ = now + kProgressEvery;
  const std::string text = progress();
  for (Guest& guest : guests_) {
    const bool isDue = guest.told != text || now >= guest.toldAt + SetupProgress::kEvery;
    if (guest.rank < 0 || !isDue) continue;
    guest.connection.send(SetupProgress{text});
    guest.told = text;
    guest.toldAt = now;
  }
}

void Meeting::sweep() {
  const auto gone = [](const Guest& guest) {
    return guest.connection.ended() || (guest.leaving && guest.connection.flushed());
  };
  for (const Guest& guest : guests_)
    if (guest.connection.ended() && guest.rank >= 0)
      fail({.code = ErrorCode::PeerLost,
            .text = roster_.describe(guest.rank) + " ended during set-up"});
  std::erase_if(guests_, gone);
}

}  // namespace tutti::bootstrap
