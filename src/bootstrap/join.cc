// join: from an identity to a control plane, in the four acts of set-up: open the meeting point
// where this rank has to, arrive, connect to everybody, hear that everybody has.

#include "src/base/log.h"
#include "src/bootstrap/bootstrap.h"
#include "src/bootstrap/meeting_server.h"
#include "src/bootstrap/mesh.h"
#include "src/bootstrap/socket_control_plane.h"

namespace tutti::bootstrap {
namespace {

/// Beside the mesh: its listener, strangers, the meeting connection, and what the caller needs.
constexpr size_t kSpareDescriptors = 8;

void requireDescriptors(int size) {
  const size_t needed = socketControlPlaneDescriptors(size) + kSpareDescriptors;
  const size_t free = freeDescriptors();
  if (needed <= free) return;
  base::fail(ErrorCode::System, "a world of ", size, " ranks needs ", needed,
             " more file descriptors in each process, and RLIMIT_NOFILE leaves ", free,
             ": raise it (ulimit -n)");
}

void waitFor(MeetingClient& meeting, const std::function<bool()>& condition,
             const std::string& what) {
  PollSet set;
  while (!condition()) {
    meeting.checkDeadline(what);
    set.clear();
    meeting.watch(set);
    set.wait(Doorway::kPatrolMs);
    meeting.advance(set);
  }
}

/// Nothing where all ranks are on this host: the meeting point cannot be reached from another.
std::optional<NetworkInterface> towardsOtherHosts(const MeetingClient& meeting,
                                                  const MeetingPoint& point) {
  const bool many = point.network || point.address.family != Family::Unix;
  return many ? networkInterface(meeting.ownAddress()) : std::nullopt;
}

std::shared_ptr<ControlPlane> arrive(MeetingClient& meeting, const Identity& identity,
                                     const MeetingPoint& point) {
  requireDescriptors(identity.size);
  Mesh mesh(point.credentials, identity.rank, identity.size, towardsOtherHosts(meeting, point));
  meeting.send(mesh.arrival());
  waitFor(
      meeting, [&] { return meeting.hasTable(); }, "all ranks to arrive");
  std::vector<base::FileDescriptor> sockets = mesh.connect(meeting);
  meeting.send(Connected{});
  waitFor(
      meeting, [&] { return meeting.complete(); }, "all ranks to connect");
  std::vector<PeerInfo> peers;
  for (const Arrival& arrival : meeting.table().ranks) peers.push_back(arrival.info);
  return makeSocketControlPlane(identity.rank, std::move(peers), std::move(sockets));
}

}  // namespace

std::shared_ptr<ControlPlane> join(const Identity& identity, base::Deadline deadline,
                                   const std::stop_token& stop) {
  requireMembership(identity.rank, identity.size);
  if (identity.size == 1 && identity.id == UniqueId{}) return makeLocalControlPlanes(1).front();
  const MeetingPoint point = decode(identity.id);
  std::optional<MeetingServer> opened;
  if (point.openedByRankZero && identity.rank == 0)
    opened.emplace(point, std::chrono::milliseconds(deadline.remainingMs()));
  MeetingClient meeting(point, identity.rank, identity.size, deadline, stop);
  try {
    auto plane = arrive(meeting, identity, point);
    base::log(LogLevel::Debug, "rank ", identity.rank, " of ", identity.size, " joined job ",
              brief(point.credentials.job), " by ", identity.source);
    return plane;
  } catch (const Error& error) {
    const auto first = meeting.giveUp({.code = error.code(), .text = error.what()});
    // Of a loss the meeting point knows more: who died, and who merely gave up because of it.
    if (first && error.code() == ErrorCode::PeerLost) throw *first;
    throw;
  }
}

}  // namespace tutti::bootstrap
