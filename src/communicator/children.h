#pragma once

// Children: how many communicators were made from this one, so that the ids of the next ones are
// new, and the same on all their ranks. Growth: the id of growId(), and the rendezvous of this
// process where existing and new ranks meet by it. They own these counts and this rendezvous. Only
// the thread that makes communicators of this one calls them; nothing is shared.

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <tutti/communicator.h>

#include "src/bootstrap/rendezvous_server.h"
#include "src/bootstrap/ticket.h"

namespace tutti::communicator {

class Growth {
 public:
  Growth() = default;
  /// New ranks that still wait are told.
  ~Growth();
  Growth(const Growth&) = delete;
  Growth& operator=(const Growth&) = delete;

  /// For a communicator of so many ranks. Throws InvalidUsage where there is an id that can be
  /// used.
  UniqueId open(int ranks, UniqueId::Reach reach, std::chrono::milliseconds lifetime);
  bool isOf(const UniqueId& id) const { return id_ && *id_ == id; }
  const bootstrap::Ticket& ticket() const { return ticket_; }
  /// Why nobody can join by the id any more.
  std::optional<Error> ended() const;
  /// There will be no grow() by it. New ranks are told why.
  void giveUp(const Error& why);
  /// It was used.
  void close();

 private:
  std::optional<UniqueId> id_;
  bootstrap::Ticket ticket_ = {};
  std::shared_ptr<bootstrap::RendezvousServer> rendezvous_;
};

class Children {
 public:
  /// Of the communicator with this id.
  explicit Children(uint64_t parent) : parent_(parent) {}

  /// By every split() of this rank, of whatever color.
  uint32_t countSplit() { return ++splits_; }
  uint64_t idOfSplit(uint32_t split, int64_t color) const;
  /// `members` are ranks of the world.
  uint64_t nextSubset(const std::vector<int>& members);
  uint64_t idOfShrink(uint32_t vote, std::span<const int> survivors) const;
  Growth& growth() { return growth_; }

 private:
  const uint64_t parent_;
  Growth growth_;
  uint32_t splits_ = 0;
  std::map<std::vector<int>, uint64_t> subsets_;  // how many of each
};

}  // namespace tutti::communicator
