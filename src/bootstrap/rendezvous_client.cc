#include "src/bootstrap/rendezvous_client.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "src/base/printable.h"
#include "src/bootstrap/network_interface.h"

namespace tutti::bootstrap {
namespace {

constexpr int kStepMs = 100;
constexpr std::chrono::milliseconds kGiveUpTime{500};
constexpr std::chrono::milliseconds kFirstPause{5}, kLongestPause{100};

}  // namespace

RendezvousClient::RendezvousClient(const Rendezvous& point, int rank, int size,
                                   base::Deadline deadline, Interruption interruption,
                                   std::string owner)
    : point_(point),
      rank_(rank),
      size_(size),
      deadline_(deadline),
      interruption_(std::move(interruption)),
      owner_(std::move(owner)) {
  if (point_.network && isLinkLocal(*point_.network))
    if (const auto own = networkInterface())
      point_.network = wire::seenFrom(*point_.network, own->address);
  connect();
}

void RendezvousClient::connect() {
  progress_ = "nothing answers there";
  if (point_.openedByRankZero)
    progress_ += ": rank 0, which listens there, has not come, could not listen, or has ended";
  if (point_.openedByRankZero && point_.address.family != wire::Family::Unix)
    progress_ +=
        isLoopback(point_.address)
            ? kLoopbackRendezvous
            : "; rank 0 listens where its own TUTTI_ADDRESS or MASTER_ADDR says, and it may "
              "resolve that name to its loopback, or to an address of the other family (IPv4, "
              "IPv6): set TUTTI_ADDRESS=host:port, the same "
              "on all ranks";
  if (!point_.openedByRankZero && point_.network)
    progress_ +=
        "; TUTTI_INTERFACE, set where the unique id is made, names another interface of "
        "that host";
  for (auto pause = kFirstPause; !tryConnect(); pause = std::min(2 * pause, kLongestPause)) {
    checkDeadline("an answer");
    std::this_thread::sleep_for(pause);
  }
  progress_ = "the rendezvous has said nothing yet";
  if (isLoopback(point_.address)) progress_ += kLoopbackRendezvous;
}

/// False: try again.
bool RendezvousClient::tryConnect() {
  const auto absent = [](int error) { return error == ECONNREFUSED || error == ENOENT; };
  wire::Connecting made = wire::startConnecting(point_.address);
  if (absent(made.error) && point_.network) made = wire::startConnecting(*point_.network);
  if (made.error != 0) {
    if (made.error == EAGAIN || (absent(made.error) && point_.openedByRankZero)) return false;
    if (absent(made.error)) nobodyListens();
    base::failSyscall("connect", made.error, describeAddresses(point_) + lackingFamily(made.error));
  }
  if (point_.credentials.sameUser && wire::peerProcess(made.socket.get()).uid != ::geteuid())
    base::fail(ErrorCode::Refused, "user ", wire::peerProcess(made.socket.get()).uid,
               " listens at ", point_.address.describe(),
               ", and without TUTTI_JOB_KEY it must be user ", ::geteuid());
  wire::noticeDeadHost(made.socket.get());
  const wire::Claim own{.version = wire::kProtocolVersion,
                        .job = point_.credentials.job,
                        .rank = rank_,
                        .size = size_};
  wire::Credentials credentials = point_.credentials;
  credentials.ofKey = point_.openedByRankZero;
  connection_.emplace(
      wire::HandshakeConnection(
          std::move(made.socket),
          wire::Handshake::connecting(credentials, wire::HandshakePurpose::Rendezvous, own, -1)),
      SetupConnection::Side::Connecting);
  heardAt_ = std::chrono::steady_clock::now();
  wire::PollSet set;
  while (!connection_->authenticated() && !connection_->ended()) {
    checkDeadline("the handshake with the rendezvous");
    set.clear();
    connection_->watch(set);
    set.wait(std::min(kStepMs, deadline_.remainingMs()));
    try {
      connection_->advance(set);
    } catch (const Error& error) {
      base::fail(error.code(), "rank ", rank_, " at ", describeAddresses(point_), ": ",
                 error.what());
    }
  }
  if (absent(connection_->error()) && !point_.openedByRankZero) nobodyListens();
  return connection_->authenticated();
}

/// Why no way leads there, as far as it is this host's own address that is missing.
std::string RendezvousClient::lackingFamily(int error) const {
  const wire::Address& to = point_.network ? *point_.network : point_.address;
  const bool noWay = error == ENETUNREACH || error == EADDRNOTAVAIL || error == EINVAL;
  if (!noWay || to.family == wire::Family::Unix) return {};
  if (isLinkLocal(to) && to.zone == 0)
    return ": a link-local address; TUTTI_INTERFACE must name this host's interface to that link";
  const std::string lack = lackOf(to.family, interfacesUp());
  return lack.empty() ? "" : ": " + lack;
}

void RendezvousClient::nobodyListens() const {
  base::fail(ErrorCode::Refused, "rank ", rank_, ": nobody listens at ", describeAddresses(point_),
             ": the unique id has expired or was used, the process that made it has ended, or ",
             !point_.network ? "it is of another host"
             : leadsHere(*point_.network, interfacesUp())
                 ? "it is of another host that has this host's address too: TUTTI_INTERFACE, set "
                   "where it is made, names another interface"
                 : "another program has that port");
}

void RendezvousClient::advance(const wire::PollSet& set) {
  connection_->advance(set);
  while (std::optional<SetupMessage> message = connection_->receive()) take(*message);
  if (connection_->ended() && !complete_)
    throw RendezvousLost(base::message(
        "rank ", rank_, ": ", describe(), " ended during set-up (", progress_,
        hasSpoken_ || point_.openedByRankZero ? ")"
                                              : ": its process has ended, or the id was used)"));
}

/// With the rank whose process it is in, as far as this rank knows.
std::string RendezvousClient::describe() const {
  const std::string at = base::message("the rendezvous at ", describeAddresses(point_));
  if (!owner_.empty()) return base::message(at, ", of ", owner_, ",");
  if (point_.openedByRankZero) return at + ", of rank 0,";
  const pid_t pid = wire::peerProcess(connection_->fd()).pid;
  for (size_t rank = 0; table_ && rank < table_->ranks.size(); ++rank)
    if (const PeerInfo& info = table_->ranks[rank].info; info.pid == pid)
      return base::message(at, ", of rank ", rank, " (", info.describe(), "),");
  return pid > 0 ? base::message(at, ", of pid ", pid, ",") : at;
}

void RendezvousClient::take(const SetupMessage& message) {
  heardAt_ = std::chrono::steady_clock::now();
  hasSpoken_ = true;
  if (const auto* progress = std::get_if<SetupProgress>(&message)) {
    progress_ = base::printable(progress->text);
  } else if (const auto* failure = std::get_if<Failure>(&message)) {
    failed_ = true;
    rethrow(*failure);
  } else if (const auto* table = std::get_if<Table>(&message); table && !table_) {
    if (table->ranks.size() != static_cast<size_t>(size_))
      base::fail(ErrorCode::Refused, "the rendezvous names ", table->ranks.size(),
                 " ranks in a world of ", size_);
    table_ = *table;
    progress_ = "all ranks have arrived, and connect to each other";
  } else if (std::holds_alternative<Complete>(message) && table_) {
    complete_ = true;
  } else {
    base::fail(ErrorCode::Refused, "an unexpected message of the rendezvous");
  }
}

void RendezvousClient::rethrow(const Failure& failure) const {
  base::fail(failure.code, "set-up of rank ", rank_, " of ", size_,
             " failed: ", base::printable(failure.text));
}

void RendezvousClient::checkDeadline(const std::string& waitingFor) const {
  if (interruption_.failure)
    if (const std::optional<Error> why = interruption_.failure()) throw Error(*why);
  if (interruption_.stop.stop_requested())
    base::fail(ErrorCode::Aborted, "set-up of rank ", rank_, " of ", size_, " was stopped");
  if (!deadline_.passed()) return;
  base::fail(ErrorCode::Timeout, "set-up of rank ", rank_, " of ", size_,
             " was not complete within its deadline, waiting for ", waitingFor, "; rendezvous at ",
             describeAddresses(point_), ": ", progress_, silence());
}

/// Where its process does not run; what it said before may be long over.
std::string RendezvousClient::silence() const {
  if (!connection_ || !wire::isConnected(connection_->fd())) return {};
  const auto silent = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - heardAt_);
  if (silent <= 2 * SetupProgress::kEvery) return {};
  return base::message("; ", describe(), " takes connections, and has said nothing for ",
                       silent.count(), " ms: that process is stopped, or starved of CPU");
}

void RendezvousClient::send(const SetupMessage& message) {
  arrived_ |= std::holds_alternative<Arrival>(message);
  connection_->send(message);
}

std::optional<Error> RendezvousClient::giveUp(const Failure& failure) noexcept {
  std::optional<Error> answer;
  if (arrived_) {
    answer = say(failure);
  } else {  // nobody knows its process yet
    const std::string who = rank_ < 0 ? "a rank" : base::message("rank ", rank_);
    answer = say(
        {.code = failure.code,
         .text = base::message(who, " (", describeThisProcess().describe(), "): ", failure.text)});
  }
  connection_.reset();
  return answer;
}

std::optional<Error> RendezvousClient::say(const Failure& failure) noexcept {
  if (failed_ || connection_->ended()) return std::nullopt;  // it knows
  const auto end = base::Deadline::after(kGiveUpTime);
  try {
    connection_->send(failure);  // fits any socket buffer
    wire::PollSet set;
    while (!end.passed()) {  // until the rendezvous answers, or ends
      set.clear();
      watch(set);
      set.wait(end.remainingMs());
      advance(set);
    }
  } catch (const Error& answer) {
    return answer;
  } catch (const std::exception&) {
    // It has told the others.
  }
  return std::nullopt;
}

}  // namespace tutti::bootstrap
