// Growing: the existing ranks agree by one AllGather on the size, and learn from it the id and the
// ticket of the rank that has called growId(). Then they and the new ranks join a job of their own,
// as all ranks of any job do. The communicator that grows is not changed. Its failure ends the
// joining, as whoever is missing then would be waited for until the deadline.

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "src/base/check.h"
#include "src/bootstrap/bootstrap.h"
#include "src/communicator/operations.h"
#include "src/communicator/state.h"

namespace tutti {
namespace {

using bootstrap::Ticket;
using communicator::Membership;
using communicator::OperationWork;

constexpr size_t kReasonBytes = 512;

/// What a rank says of the grow() that it calls.
struct GrowVote {
  int64_t size = 0;
  int rank = 0;
  UniqueId id;         // of growId(); empty on the other ranks
  Ticket ticket = {};  // the same
  /// Why nobody can join by the id any more; empty: they can.
  ErrorCode code = ErrorCode::Internal;
  std::array<char, kReasonBytes> reason{};

  bool hasId() const { return id != UniqueId{}; }
  void refuse(const Error& why) {
    code = why.code();
    const std::string text = why.what();
    std::ranges::copy(text.substr(0, kReasonBytes - 1), reason.begin());
  }
};
static_assert(std::is_trivially_copyable_v<GrowVote>);

/// What every rank says, by rank.
std::vector<GrowVote> votesOf(Communicator::Impl& c, const GrowVote& mine) {
  std::vector<GrowVote> votes(static_cast<size_t>(c.who.size()));
  OperationWork vote =
      communicator::makeCollective(c.shared(), {.facts = {.collective = plan::Collective::AllGather,
                                                          .type = DataType::UInt8,
                                                          .count = sizeof mine},
                                                .in = reinterpret_cast<const std::byte*>(&mine),
                                                .out = reinterpret_cast<std::byte*>(votes.data())});
  vote.limit(c.settings.setupTimeoutMs);
  communicator::start(std::move(vote), {});
  return votes;
}

/// The vote with the id. Throws, the same on all ranks, where they cannot grow together.
GrowVote decide(const std::vector<GrowVote>& votes, const Membership& who) {
  int coordinator = -1;
  for (int r = 0; r < who.size(); ++r) {
    const GrowVote& vote = votes[static_cast<size_t>(r)];
    if (vote.size != votes[0].size)
      base::fail(ErrorCode::Mismatch, "ranks disagree about grow(): ", who.name(0), " wants ",
                 votes[0].size, " ranks, ", who.name(r), " wants ", vote.size);
    if (!vote.hasId()) continue;
    if (coordinator >= 0)
      base::fail(ErrorCode::Mismatch, "ranks disagree about grow(): ", who.name(coordinator),
                 " and ", who.name(r), " both give it an id; one rank calls growId()");
    coordinator = r;
  }
  if (coordinator < 0)
    base::fail(ErrorCode::InvalidArgument,
               "grow() has no id: one of the ranks calls growId(), and gives grow() that id");
  const GrowVote& vote = votes[static_cast<size_t>(coordinator)];
  if (vote.reason[0] != '\0')
    base::fail(vote.code, "nobody can join by the id of ", who.name(coordinator),
               " any more: ", vote.reason.data());
  return vote;
}

/// Where the rank that was lost is one of this communicator, it soon knows, and says more of it.
/// Whoever catches the error decides by asyncError() whether to shrink.
void throwOwnLoss(Communicator::Impl& c, const Error& error) {
  if (error.code() != ErrorCode::PeerLost && !c.failure.hasFailed()) return;
  const bool rendezvousIsLost = dynamic_cast<const bootstrap::RendezvousLost*>(&error) != nullptr;
  const std::chrono::nanoseconds longest = rendezvousIsLost
                                               ? communicator::Peers::kDeathIsKnown
                                               : std::chrono::nanoseconds(communicator::kBreakNs);
  auto lock = c.failure.lock();
  c.failure.wait(lock, longest, [&] { return c.failure.reason(lock).has_value(); });
  if (c.failure.reason(lock)) c.failure.throwFailure(lock);
}

/// The grown communicator, connected. The failure of `c` ends it, as does a request to stop.
std::shared_ptr<Communicator::Impl> joinWithOthers(Communicator::Impl& c,
                                                   const bootstrap::Identity& identity,
                                                   base::Deadline deadline,
                                                   const std::stop_token& stop) {
  const auto failure = [&c] { return c.failure.reason(); };
  auto world = std::make_shared<communicator::World>(
      communicator::numberOfJob(identity.id),
      bootstrap::join(identity, deadline, {.stop = stop, .failure = failure}), nullptr);
  auto made = std::make_shared<Communicator::Impl>(Membership::ofJob(std::move(world)), c.settings);
  const std::stop_callback stopped(stop, [&] { made->stopSetup(); });
  const std::stop_callback failed(c.failure.ended(), [&] {
    if (const auto why = failure()) made->failure.fail(*why, true);
  });
  made->connect(deadline);
  return made;
}

}  // namespace

UniqueId Communicator::growId(UniqueId::Reach reach) {
  impl_->host.requireUsable();
  return impl_->children.growth().open(size(), reach,
                                       std::chrono::milliseconds(impl_->settings.setupTimeoutMs));
}

Communicator Communicator::grow(const GrowArgs& args) {
  if (communicator::groupIsOpen())
    base::fail(ErrorCode::InvalidUsage, "grow() cannot be part of a group");
  TUTTI_REQUIRE(args.size > size() && args.size <= bootstrap::kMaxWorldSize, "grow() from ", size(),
                " ranks to ", args.size, ": the size is more than that, and at most ",
                bootstrap::kMaxWorldSize);
  TUTTI_REQUIRE(!args.id || impl_->children.growth().isOf(*args.id),
                "the id given to grow() is not the last of this rank's growId(), or it was used");
  try {
    auto grown = impl_->grown(args);
    impl_->children.growth().close();
    return Communicator(std::move(grown));
  } catch (const Error& e) {
    impl_->children.growth().giveUp(e);
    throw;
  }
}

std::shared_ptr<Communicator::Impl> Communicator::Impl::grown(const GrowArgs& args) {
  host.requireUsable();
  const auto deadline = base::Deadline::after(std::chrono::milliseconds(settings.setupTimeoutMs));
  GrowVote mine{.size = args.size, .rank = who.rank()};
  if (args.id) {
    mine.id = *args.id;
    mine.ticket = children.growth().ticket();
    if (const auto why = children.growth().ended()) mine.refuse(*why);
  }
  const GrowVote agreed = decide(votesOf(*this, mine), who);

  const bootstrap::Identity identity{.rank = who.rank(),
                                     .size = args.size,
                                     .id = agreed.id,
                                     .source = "grow()",
                                     .ticket = agreed.ticket,
                                     .rendezvousOf = who.name(agreed.rank)};
  try {
    return joinWithOthers(*this, identity, deadline, args.stop);
  } catch (const Error& e) {
    throwOwnLoss(*this, e);
    throw;
  }
}

}  // namespace tutti
