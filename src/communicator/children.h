#pragma once

// Children: how many communicators were made from this one, so that the ids of the next ones are
// new, and the same on all their ranks. It owns these counts. Only the thread that makes
// communicators of this one calls it; nothing is shared.

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace tutti::communicator {

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

 private:
  const uint64_t parent_;
  uint32_t splits_ = 0;
  std::map<std::vector<int>, uint64_t> subsets_;  // how many of each
};

}  // namespace tutti::communicator
