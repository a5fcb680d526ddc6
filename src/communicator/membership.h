#pragma once

// Membership: who is in a communicator, and in which process it was made. It owns a share of the
// World, the members and this rank's number. Everybody reads it, on all threads; it is constant
// from its construction on, so that no lock protects it.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tutti/error.h>

#include "src/base/process.h"
#include "src/bootstrap/control_plane.h"
#include "src/communicator/world.h"

namespace tutti::communicator {

class Membership {
 public:
  /// `members` are ranks of the world, in order of their rank here; `id` is the channel of the
  /// control plane, the same on all members.
  Membership(std::shared_ptr<World> world, std::vector<int> members, int rank, uint64_t id);

  const std::shared_ptr<World>& world() const { return world_; }
  bootstrap::ControlPlane& control() const { return *world_->control; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  uint64_t id() const { return id_; }
  /// Ranks of the world.
  const std::vector<int>& members() const { return members_; }
  int inWorld(int rank) const { return members_[static_cast<size_t>(rank)]; }
  int rankOfWorld(int worldRank) const;  ///< -1: no member
  const bootstrap::PeerInfo& info(int rank) const { return control().peer(inWorld(rank)); }

  std::string name(int rank) const;  ///< "rank 2 (pid 4711 on host n1)"
  std::string self() const { return name(rank_); }

  /// The ranks of the world that `ranks` of this communicator are.
  std::vector<int> inWorld(std::span<const int> ranks) const;
  /// The first communicator of a job, of all its ranks.
  static Membership ofJob(std::shared_ptr<World> world);
  /// The communicator of `ranks`, in this order. This rank has to be among them.
  Membership part(std::span<const int> ranks, uint64_t id) const;

  bool inForkedChild() const { return guard_.inForkedChild(); }
  static Error usedAfterFork();

 private:
  base::ProcessGuard guard_;
  std::shared_ptr<World> world_;
  std::vector<int> members_;
  int rank_;
  uint64_t id_;
};

}  // namespace tutti::communicator
