// join: from an identity to a control plane, in the four acts of set-up: open the rendezvous
// where this rank has to, arrive, connect to everybody, hear that everybody has.

#include "src/base/log.h"
#include "src/bootstrap/bootstrap.h"
#include "src/bootstrap/mesh.h"
#include "src/bootstrap/rendezvous_server.h"
#include "src/bootstrap/socket_control_plane.h"

namespace tutti::bootstrap {
namespace {

/// Beside the mesh: its listener, strangers, the rendezvous connection, and what the caller needs.
constexpr size_t kSpareDescriptors = 8;

/// How long a rank that does not know its rank tries to tell that to others. Often none of a job's
/// ranks does, and then nobody comes.
constexpr std::chrono::milliseconds kMalformedTime{10'000};

/// How long rank 0 listens to another job's rendezvous at its own address.
constexpr std::chrono::milliseconds kOtherJobTime{2'000};

void requireDescriptors(int size) {
  const size_t needed = socketControlPlaneDescriptors(size) + kSpareDescriptors;
  const size_t free = wire::freeDescriptors();
  if (needed <= free) return;
  base::fail(ErrorCode::System, "a world of ", size, " ranks needs ", needed,
             " more file descriptors in each process, and RLIMIT_NOFILE leaves ", free,
             ": raise it (ulimit -n)");
}

void waitFor(RendezvousClient& rendezvous, const std::function<bool()>& condition,
             const std::string& what) {
  wire::PollSet set;
  while (!condition()) {
    rendezvous.checkDeadline(what);
    set.clear();
    rendezvous.watch(set);
    set.wait(wire::HandshakeListener::kPatrolMs);
    rendezvous.advance(set);
  }
}

/// Nothing where all ranks are on this host: the rendezvous cannot be reached from another.
std::optional<LocalInterface> towardsOtherHosts(const RendezvousClient& rendezvous,
                                                const Rendezvous& point) {
  const bool many = point.network || point.address.family != wire::Family::Unix;
  return many ? networkInterface(rendezvous.ownAddress()) : std::nullopt;
}

std::shared_ptr<ControlPlane> arrive(RendezvousClient& rendezvous, const Identity& identity,
                                     const Rendezvous& point) {
  if (identity.malformed) throw Error(*identity.malformed);
  requireDescriptors(identity.size);
  Mesh mesh(point.credentials, identity.rank, identity.size, towardsOtherHosts(rendezvous, point));
  Arrival own = mesh.arrival();
  own.ticket = identity.ticket;
  rendezvous.send(own);
  waitFor(
      rendezvous, [&] { return rendezvous.hasTable(); }, "all ranks to arrive");
  std::vector<PeerSocket> sockets = mesh.connect(rendezvous);
  rendezvous.send(Connected{});
  waitFor(
      rendezvous, [&] { return rendezvous.complete(); }, "all ranks to connect");
  std::vector<PeerInfo> peers;
  const Table table = mesh.seenFromHere(rendezvous.table());
  for (const Arrival& arrival : table.ranks) {
    peers.push_back(arrival.info);
    peers.back().network = arrival.network;
  }
  return makeSocketControlPlane(identity.rank, std::move(peers), std::move(sockets));
}

/// What a rendezvous that this job's rank 0 did not open says to it: of another job with the same
/// key, which hears of this one so. Nothing where it is no such rendezvous.
std::optional<Error> askWhoeverListens(Rendezvous point, const Identity& identity,
                                       base::Deadline deadline, const Interruption& interruption) {
  point.openedByRankZero = false;  // it is there, or it is not waited for
  const std::chrono::milliseconds left(deadline.remainingMs());
  std::optional<RendezvousClient> rendezvous;
  try {
    rendezvous.emplace(point, identity.rank, identity.size,
                       base::Deadline::after(std::min(left, kOtherJobTime)), interruption);
  } catch (const Error&) {
    return std::nullopt;
  }
  try {
    rendezvous->send(
        Arrival{.info = describeThisProcess(), .listening = wire::randomUnixAddress()});
    waitFor(
        *rendezvous, [] { return false; }, "the other job");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::Timeout) return error;
  }
  return std::nullopt;
}

/// The rendezvous, where it is in this process: rank 0's, or one of an id that was made here.
std::shared_ptr<RendezvousServer> serverHere(const Rendezvous& point, const Identity& identity,
                                             base::Deadline deadline,
                                             const Interruption& interruption) {
  if (!point.openedByRankZero) return rendezvousOpenedHere(point.credentials.job);
  if (identity.rank != 0) return nullptr;
  try {
    return std::make_shared<RendezvousServer>(point,
                                              std::chrono::milliseconds(deadline.remainingMs()));
  } catch (const Error& error) {
    const auto answer = askWhoeverListens(point, identity, deadline, interruption);
    if (!answer) throw;
    base::fail(answer->code(), error.what(), "; ", answer->what());
  }
}

std::shared_ptr<ControlPlane> meet(const Identity& identity, base::Deadline deadline,
                                   const Interruption& interruption) {
  const Rendezvous point = decode(identity.id);
  const auto server = serverHere(point, identity, deadline, interruption);
  RendezvousClient rendezvous(point, identity.rank, identity.size, deadline, interruption,
                              identity.rendezvousOf);
  try {
    auto plane = arrive(rendezvous, identity, point);
    base::log(LogLevel::Debug, "rank ", identity.rank, " of ", identity.size, " joined job ",
              wire::brief(point.credentials.job), " by ", identity.source);
    return plane;
  } catch (const Error& error) {
    const auto first = rendezvous.giveUp({.code = error.code(), .text = error.what()});
    if (server) server->awaitAllTold(deadline, interruption.stop);
    // Of a loss the rendezvous knows more: who died, and who merely gave up because of it.
    if (first && error.code() == ErrorCode::PeerLost) throw *first;
    throw;
  }
}

}  // namespace

std::shared_ptr<ControlPlane> join(const Identity& identity, base::Deadline deadline,
                                   const Interruption& interruption) {
  if (identity.malformed) {
    const std::chrono::milliseconds left(deadline.remainingMs());
    try {
      meet(identity, base::Deadline::after(std::min(left, kMalformedTime)), interruption);
    } catch (const Error&) {
      // It is the one below, or there was nobody to be told.
    }
    throw Error(*identity.malformed);
  }
  requireMembership(identity.rank, identity.size);
  if (identity.size == 1 && identity.id == UniqueId{}) return makeLocalControlPlanes(1).front();
  return meet(identity, deadline, interruption);
}

}  // namespace tutti::bootstrap
