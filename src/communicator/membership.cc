#include "src/communicator/membership.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/base/check.h"

namespace tutti::communicator {
namespace {

constexpr uint64_t kRootId = 1;  // of a job's first communicator

}  // namespace

Membership::Membership(std::shared_ptr<World> world, std::vector<int> members, int rank,
                       uint64_t id)
    : world_(std::move(world)), members_(std::move(members)), rank_(rank), id_(id) {}

int Membership::rankOfWorld(int worldRank) const {
  for (int r = 0; r < size(); ++r)
    if (inWorld(r) == worldRank) return r;
  return -1;
}

std::string Membership::name(int rank) const {
  return base::message("rank ", rank, " (", info(rank).describe(), ")");
}

std::vector<int> Membership::inWorld(std::span<const int> ranks) const {
  std::vector<int> members;
  for (const int rank : ranks) members.push_back(inWorld(rank));
  return members;
}

Membership Membership::ofJob(std::shared_ptr<World> world) {
  const int rank = world->control->rank();
  std::vector<int> members(static_cast<size_t>(world->control->size()));
  std::iota(members.begin(), members.end(), 0);
  return {std::move(world), std::move(members), rank, kRootId};
}

Membership Membership::part(std::span<const int> ranks, uint64_t id) const {
  const auto own = std::ranges::find(ranks, rank_);
  TUTTI_ASSERT(own != ranks.end(), "rank ", rank_, " is not in its own communicator");
  return {world_, inWorld(ranks), static_cast<int>(own - ranks.begin()), id};
}

Error Membership::usedAfterFork() {
  return Error(ErrorCode::InvalidUsage, "a communicator of the parent process was used after fork");
}

}  // namespace tutti::communicator
