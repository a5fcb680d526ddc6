#pragma once

// Happens-before by vector clocks with epochs (Flanagan, Freund: FastTrack), for the checker. Every
// lane has a clock; lane order, `after` and messages carry it on. Two accesses of one place, one of
// them a write, must be ordered.

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace tutti::plan {

/// A step of a lane, at one time.
struct Epoch {
  uint32_t lane = 0;
  uint32_t clock = 0;  // 0: never
  uint32_t step = 0;   // flat number
};

class Races {
 public:
  using Clock = std::vector<uint32_t>;
  using Snapshot = uint32_t;
  static constexpr Snapshot kNoSnapshot = UINT32_MAX;

  Races(size_t lanes, size_t places)
      : clocks_(lanes, Clock(lanes, 0)), lastWrite_(places), reads_(places) {}

  void acquire(uint32_t lane, Snapshot snapshot) { merge(clocks_[lane], pool_[snapshot]); }
  void advance(uint32_t lane) { ++clocks_[lane][lane]; }
  /// The lane's clock now, for `uses` calls of release().
  Snapshot snapshot(uint32_t lane, uint32_t uses);
  void release(Snapshot snapshot) {
    if (--uses_[snapshot] == 0) free_.push_back(snapshot);
  }

  /// The earlier access that is not ordered before this one, if there is one.
  std::optional<Epoch> read(uint32_t lane, uint32_t step, size_t place);
  std::optional<Epoch> write(uint32_t lane, uint32_t step, size_t place);

  /// Notes that `lane` touched a buffer of rank `owner`.
  void touch(uint32_t lane, uint32_t step, int owner);
  /// What rank `owner`, whose lanes are [first, last), does not wait for before it ends.
  std::optional<Epoch> untold(int owner, uint32_t first, uint32_t last) const;
  /// `lane`'s first step is known when lanes [first, last) have ended.
  bool knowsStart(uint32_t lane, uint32_t first, uint32_t last) const;

 private:
  static void merge(Clock& into, const Clock& from);
  bool ordered(uint32_t lane, const Epoch& e) const { return clocks_[lane][e.lane] >= e.clock; }

  std::vector<Clock> clocks_;
  std::vector<Epoch> lastWrite_;
  std::vector<std::vector<Epoch>> reads_;  // since the last write
  std::unordered_map<uint64_t, Epoch> touches_;
  std::vector<Clock> pool_;
  std::vector<uint32_t> uses_;
  std::vector<Snapshot> free_;
};

}  // namespace tutti::plan
