#include "src/bootstrap/mesh.h"

#include <algorithm>
#include <cstring>

#include "src/base/log.h"

namespace tutti::bootstrap {
namespace {

constexpr size_t kOutgoingAtOnce = 64;
constexpr const char* kSetThere = "; TUTTI_INTERFACE, set there, names another interface";

/// "192.0.2.1:4711 (interface eth0)"
std::string networkAddress(const Arrival& arrival) {
  return base::message(arrival.network->describe(), " (",
                       describeInterface(arrival.info.interface, arrival.info.interfaceVariable),
                       ")");
}

}  // namespace

Mesh::Mesh(const wire::Credentials& credentials, int rank, int size,
           const std::optional<LocalInterface>& network)
    : credentials_(credentials),
      rank_(rank),
      size_(size),
      arrival_{.info = describeThisProcess(), .listening = wire::randomUnixAddress()},
      listener_(listen(network), credentials, wire::HandshakePurpose::Mesh, rank),
      sockets_(static_cast<size_t>(size)) {}

std::vector<base::FileDescriptor> Mesh::listen(const std::optional<LocalInterface>& network) {
  const int backlog = std::clamp(size_, 16, 4096);
  std::vector<base::FileDescriptor> listeners;
  listeners.push_back(wire::listenOn(arrival_.listening, backlog));
  if (!network) return listeners;
  listeners.push_back(wire::listenOn(network->address, backlog));
  arrival_.network = wire::localAddress(listeners.back().get());
  arrival_.info.bootId = hostId(readHostFacts(), arrival_.network);
  arrival_.info.interface = network->name;
  arrival_.info.interfaceVariable = interfaceVariable();
  return listeners;
}

std::vector<PeerSocket> Mesh::connect(RendezvousClient& rendezvous) {
  const Table table = seenFromHere(rendezvous.table());
  requireWays(table);
  wire::PollSet set;
  while (connected_ < size_ - 1) {
    startOutgoing(table);
    set.clear();
    rendezvous.watch(set);
    listener_.watch(set);
    for (const auto& [rank, connection] : outgoing_) connection.watch(set);
    const bool waitingForRoom = next_ < rank_ && outgoing_.size() < kOutgoingAtOnce;
    set.wait(waitingForRoom ? 5 : wire::HandshakeListener::kPatrolMs);
    hear(rendezvous, set, table);
    advance(set, table);
    if (connected_ < size_ - 1) rendezvous.checkDeadline(missing(table));
  }
  return std::move(sockets_);
}

Table Mesh::seenFromHere(Table table) const {
  for (Arrival& peer : table.ranks)
    if (peer.network && arrival_.network)
      peer.network = wire::seenFrom(*peer.network, *arrival_.network);
  return table;
}

/// Whose deadline passes first tells all others what it waited for, which may be another
/// connection than those that this rank lacks.
void Mesh::hear(RendezvousClient& rendezvous, const wire::PollSet& set, const Table& table) const {
  try {
    rendezvous.advance(set);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::Timeout) throw;
    base::fail(ErrorCode::Timeout, error.what(), "; rank ", rank_, " lacks ", missing(table));
  }
}

/// An address that other hosts have too, like that of Docker's bridge, leads each of them to
/// itself.
void Mesh::requireWays(const Table& table) const {
  const auto elsewhere = [&](const Arrival& peer) { return !onThisHost(peer); };
  if (std::ranges::none_of(table.ranks, elsewhere)) return;
  const std::vector<InterfaceEntry> own = interfacesUp();
  for (int rank = 0; rank < size_; ++rank) {
    const Arrival& peer = table.ranks[static_cast<size_t>(rank)];
    if (elsewhere(peer) && leadsHere(*peer.network, own))
      cannotReach(rank, table, ErrorCode::System,
                  isLoopback(*peer.network) ? "a loopback address leads to this host itself"
                                            : "this host has that address too");
    if (elsewhere(peer) && rank < rank_) requireFamily(rank, table, own);
  }
}

/// Of the peers that this rank connects to; the others say it themselves.
void Mesh::requireFamily(int rank, const Table& table,
                         const std::vector<InterfaceEntry>& own) const {
  const wire::Address& address = *table.ranks[static_cast<size_t>(rank)].network;
  if (isLinkLocal(address)) {
    if (address.zone == 0)
      cannotReach(rank, table, ErrorCode::System,
                  "its address is link-local, and TUTTI_INTERFACE names no interface to its link "
                  "here");
    return;
  }
  if (const std::string lack = lackOf(address.family, own); !lack.empty())
    cannotReach(rank, table, ErrorCode::System, lack);
}

void Mesh::startOutgoing(const Table& table) {
  for (; next_ < rank_ && outgoing_.size() < kOutgoingAtOnce; ++next_) {
    const Arrival& peer = table.ranks[static_cast<size_t>(next_)];
    wire::Connecting made =
        wire::startConnecting(onThisHost(peer) ? peer.listening : *peer.network);
    if (made.error == EAGAIN) return;  // its backlog is full
    if (made.error != 0) failToConnect(next_, made.error, table);
    const wire::Claim own{
        .version = wire::kProtocolVersion, .job = credentials_.job, .rank = rank_, .size = size_};
    outgoing_.emplace(next_, wire::HandshakeConnection(
                                 std::move(made.socket),
                                 wire::Handshake::connecting(
                                     credentials_, wire::HandshakePurpose::Mesh, own, next_)));
  }
}

void Mesh::advance(const wire::PollSet& set, const Table& table) {
  for (auto next = outgoing_.begin(); next != outgoing_.end();) {
    const auto entry = next++;
    try {
      entry->second.advance(set);
    } catch (const Error& error) {
      cannotReach(entry->first, table, error.code(), error.what());
    }
    if (entry->second.authenticated() && entry->second.flushed()) {
      keep(entry->first, std::move(entry->second), table);
      outgoing_.erase(entry);
    } else if (entry->second.ended()) {
      if (entry->second.error() != 0) failToConnect(entry->first, entry->second.error(), table);
      base::fail(ErrorCode::PeerLost, describe(entry->first, table),
                 " closed its connection with rank ", rank_, " during set-up");
    }
  }
  listener_.advance(set);
  for (wire::HandshakeConnection& connection : listener_.takeAuthenticated())
    accept(std::move(connection), table);
}

void Mesh::failToConnect(int rank, int error, const Table& table) const {
  const bool here = onThisHost(table.ranks[static_cast<size_t>(rank)]);
  switch (error) {
    case ECONNREFUSED:
      if (!here)
        cannotReach(rank, table, ErrorCode::PeerLost,
                    "nobody listens there: it has ended, or another host has that address");
      failToConnectHere(rank, table);
    case ECONNRESET:
    case EPIPE:
      base::fail(ErrorCode::PeerLost, describe(rank, table), " closed its connection with rank ",
                 rank_, " during set-up");
    default: cannotReach(rank, table, ErrorCode::System, std::strerror(error));
  }
}

/// Whoever has arrived listens until it ends, so a Unix socket that nobody has may also be of
/// another host, whose id is the same as this one's.
void Mesh::failToConnectHere(int rank, const Table& table) const {
  const Arrival& peer = table.ranks[static_cast<size_t>(rank)];
  if (peer.network && !leadsHere(*peer.network, interfacesUp()))
    cannotReach(
        rank, table, ErrorCode::System,
        base::message("its boot id and network namespace, ", peer.info.bootId,
                      ", are this host's too, and its address, ", networkAddress(peer),
                      ", is not: it seems to be on another host. Virtual machines that are copies "
                      "of a running one have its boot id until they are restarted"));
  base::fail(ErrorCode::PeerLost, describe(rank, table), " ended during set-up, before rank ",
             rank_, " reached it",
             peer.network && !areKnown(readHostFacts())
                 ? base::message(", or is on another host that has the address of this one, ",
                                 networkAddress(peer), ", too", kSetThere)
                 : "");
}

void Mesh::cannotReach(int rank, const Table& table, ErrorCode code, const std::string& why) const {
  const bool here = onThisHost(table.ranks[static_cast<size_t>(rank)]);
  base::fail(code, "rank ", rank_, " (", arrival_.info.describe(), ") cannot reach ",
             describe(rank, table), ": ", why, here ? "" : kSetThere);
}

void Mesh::accept(wire::HandshakeConnection connection, const Table& table) {
  const wire::Claim& claim = connection.handshake().claim();
  const bool expected = claim.version == wire::kProtocolVersion && claim.job == credentials_.job &&
                        claim.size == size_ && claim.rank > rank_ && claim.rank < size_ &&
                        !sockets_[static_cast<size_t>(claim.rank)].socket;
  if (expected) return keep(claim.rank, std::move(connection), table);
  base::log(LogLevel::Warning, "rank ", rank_, " refused a connection of rank ", claim.rank, " of ",
            claim.size);
}

void Mesh::keep(int rank, wire::HandshakeConnection connection, const Table& table) {
  noteProcess(rank, connection.fd(), table);
  wire::noticeDeadHost(connection.fd());
  const wire::Key session = connection.handshake().sessionKey();
  sockets_[static_cast<size_t>(rank)] = sealedSocket(connection.release(), session, rank_, rank);
  ++connected_;
}

/// Where the kernel can say who is at the other end, a pid other than the table's is only noted:
/// another pid namespace counts differently, and the handshake has proved who it is.
void Mesh::noteProcess(int rank, int socket, const Table& table) const {
  const wire::PeerProcess process = wire::peerProcess(socket);
  const PeerInfo& info = table.ranks[static_cast<size_t>(rank)].info;
  if (process.pid > 0 && process.pid != info.pid)
    base::log(LogLevel::Debug, "rank ", rank, " says it is pid ", info.pid, ", and is pid ",
              process.pid, " here: another pid namespace");
}

/// The connection that this rank waits for, at which address, and what would change that. Ranks
/// connect to those below them.
std::string Mesh::missing(const Table& table) const {
  int rank = 0;
  while (rank < size_ && (rank == rank_ || sockets_[static_cast<size_t>(rank)].socket)) ++rank;
  if (rank == size_) return "nothing";
  const Arrival& peer = table.ranks[static_cast<size_t>(rank)];
  if (onThisHost(peer)) return "the connection with " + describe(rank, table);
  if (rank < rank_) return base::message("the connection with ", describe(rank, table), kSetThere);
  return base::message("the connection of rank ", rank, " (", peer.info.describe(), ") to ",
                       networkAddress(arrival_),
                       " here; TUTTI_INTERFACE, set here, names another interface");
}

std::string Mesh::describe(int rank, const Table& table) const {
  const Arrival& peer = table.ranks[static_cast<size_t>(rank)];
  return base::message("rank ", rank, " (", peer.info.describe(), ") at ",
                       onThisHost(peer) ? peer.listening.describe() : networkAddress(peer));
}

}  // namespace tutti::bootstrap
