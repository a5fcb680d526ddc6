#include "src/plan/races.h"

#include <algorithm>

namespace tutti::plan {

void Races::merge(Clock& into, const Clock& from) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

Races::Snapshot Races::snapshot(uint32_t lane, uint32_t uses) {
  if (uses == 0) return kNoSnapshot;
  if (free_.empty()) {
    free_.push_back(static_cast<Snapshot>(pool_.size()));
    pool_.emplace_back();
    uses_.push_back(0);
  }
  const Snapshot at = free_.back();
  free_.pop_back();
  pool_[at] = clocks_[lane];
  uses_[at] = uses;
  return at;
}

std::optional<Epoch> Races::read(uint32_t lane, uint32_t step, size_t place) {
  std::vector<Epoch>& reads = reads_[place];
  const Epoch now{lane, clocks_[lane][lane], step};
  const auto mine = std::ranges::find(reads, lane, &Epoch::lane);
  if (mine == reads.end())
    reads.push_back(now);
  else
    *mine = now;
  if (!ordered(lane, lastWrite_[place])) return lastWrite_[place];
  return {};
}

std::optional<Epoch> Races::write(uint32_t lane, uint32_t step, size_t place) {
  std::vector<Epoch>& reads = reads_[place];
  const Epoch before = lastWrite_[place];
  lastWrite_[place] = {lane, clocks_[lane][lane], step};
  for (const Epoch& e : reads)
    if (!ordered(lane, e)) return e;
  reads.clear();
  if (!ordered(lane, before)) return before;
  return {};
}

void Races::touch(uint32_t lane, uint32_t step, int owner) {
  const uint64_t key = static_cast<uint64_t>(owner) << 32 | lane;
  touches_[key] = {lane, clocks_[lane][lane], step};
}

std::optional<Epoch> Races::untold(int owner, uint32_t first, uint32_t last) const {
  for (uint32_t lane = 0; lane < clocks_.size(); ++lane) {
    const auto touched = touches_.find(static_cast<uint64_t>(owner) << 32 | lane);
    if (touched == touches_.end()) continue;
    const bool known =
        std::any_of(clocks_.begin() + first, clocks_.begin() + last,
                    [&](const Clock& clock) { return clock[lane] >= touched->second.clock; });
    if (!known) return touched->second;
  }
  return {};
}

bool Races::knowsStart(uint32_t lane, uint32_t first, uint32_t last) const {
  return std::any_of(clocks_.begin() + first, clocks_.begin() + last,
                     [&](const Clock& clock) { return clock[lane] > 0; });
}

}  // namespace tutti::plan
