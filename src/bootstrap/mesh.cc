#include "src/bootstrap/mesh.h"

#include <algorithm>

#include "src/base/log.h"

namespace tutti::bootstrap {
namespace {

constexpr size_t kOutgoingAtOnce = 64;

}  // namespace

Mesh::Mesh(const Credentials& credentials, int rank, int size)
    : credentials_(credentials),
      rank_(rank),
      size_(size),
      address_(randomUnixAddress()),
      door_(listenOn(address_, std::clamp(size, 16, 4096)), credentials, Purpose::Mesh, rank),
      sockets_(static_cast<size_t>(size)) {}

std::vector<base::FileDescriptor> Mesh::connect(MeetingClient& meeting) {
  const Table& table = meeting.table();
  PollSet set;
  while (connected_ < size_ - 1) {
    startOutgoing(table);
    set.clear();
    meeting.watch(set);
    door_.watch(set);
    for (const auto& [rank, connection] : outgoing_) connection.watch(set);
    const bool waitingForRoom = next_ < rank_ && outgoing_.size() < kOutgoingAtOnce;
    set.wait(waitingForRoom ? 5 : Doorway::kPatrolMs);
    meeting.advance(set);
    advance(set, table);
    if (connected_ < size_ - 1) meeting.checkDeadline(missing(table));
  }
  return std::move(sockets_);
}

void Mesh::startOutgoing(const Table& table) {
  for (; next_ < rank_ && outgoing_.size() < kOutgoingAtOnce; ++next_) {
    const Arrival& peer = table.ranks[static_cast<size_t>(next_)];
    Connecting made = startConnecting(peer.listening);
    if (made.error == EAGAIN) return;  // its backlog is full
    if (made.error == ECONNREFUSED)
      base::fail(ErrorCode::PeerLost, "rank ", next_, " (", peer.info.describe(),
                 ") ended during set-up, before rank ", rank_, " reached it at ",
                 peer.listening.describe());
    if (made.error != 0)
      base::failSyscall("connect", made.error,
                        base::message("rank ", rank_, " to rank ", next_, " (",
                                      peer.info.describe(), ") at ", peer.listening.describe()));
    const Claim own{
        .version = kProtocolVersion, .job = credentials_.job, .rank = rank_, .size = size_};
    outgoing_.emplace(
        next_, SetupConnection(std::move(made.socket),
                               Handshake::connecting(credentials_, Purpose::Mesh, own, next_),
                               SetupConnection::Side::Connecting));
  }
}

void Mesh::advance(const PollSet& set, const Table& table) {
  for (auto next = outgoing_.begin(); next != outgoing_.end();) {
    const auto entry = next++;
    entry->second.advance(set);
    if (entry->second.authenticated() && entry->second.flushed()) {
      keep(entry->first, std::move(entry->second), table);
      outgoing_.erase(entry);
    } else if (entry->second.ended()) {
      base::fail(ErrorCode::PeerLost, "rank ", entry->first, " (",
                 table.ranks[static_cast<size_t>(entry->first)].info.describe(),
                 ") closed its connection with rank ", rank_, " during set-up");
    }
  }
  door_.advance(set);
  for (SetupConnection& connection : door_.takeAuthenticated())
    accept(std::move(connection), table);
}

void Mesh::accept(SetupConnection connection, const Table& table) {
  const Claim& claim = connection.handshake().claim();
  const bool expected = claim.version == kProtocolVersion && claim.job == credentials_.job &&
                        claim.size == size_ && claim.rank > rank_ && claim.rank < size_ &&
                        !sockets_[static_cast<size_t>(claim.rank)];
  if (expected) return keep(claim.rank, std::move(connection), table);
  base::log(LogLevel::Warning, "rank ", rank_, " refused a connection of rank ", claim.rank, " of ",
            claim.size);
}

void Mesh::keep(int rank, SetupConnection connection, const Table& table) {
  noteProcess(rank, connection.fd(), table);
  sockets_[static_cast<size_t>(rank)] = connection.release();
  ++connected_;
}

/// Where the kernel can say who is at the other end, a pid other than the table's is only noted:
/// another pid namespace counts differently, and the handshake has proved who it is.
void Mesh::noteProcess(int rank, int socket, const Table& table) const {
  const PeerProcess process = peerProcess(socket);
  const PeerInfo& info = table.ranks[static_cast<size_t>(rank)].info;
  if (process.pid > 0 && process.pid != info.pid)
    base::log(LogLevel::Debug, "rank ", rank, " says it is pid ", info.pid, ", and is pid ",
              process.pid, " here: another pid namespace");
}

std::string Mesh::missing(const Table& table) const {
  for (int rank = 0; rank < size_; ++rank)
    if (rank != rank_ && !sockets_[static_cast<size_t>(rank)])
      return base::message("the connection with rank ", rank, " (",
                           table.ranks[static_cast<size_t>(rank)].info.describe(), ")");
  return "nothing";
}

}  // namespace tutti::bootstrap
