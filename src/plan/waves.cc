#include "src/plan/waves.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "src/base/check.h"

namespace tutti::plan {
namespace {

/// All ranks, as they perform a round.
class Performance {
 public:
  Performance(const ProgramOf& programOf, int ranks, uint32_t slots) : slots_(slots) {
    for (int rank = 0; rank < ranks; ++rank) {
      programs_.push_back(programOf(rank));
      done_.emplace_back(programs_.back().lanes.size());
    }
  }

  /// Performs the steps that can be performed now: by rank, lanes and steps.
  std::vector<std::vector<Dependency>> perform() {
    std::vector<std::vector<Dependency>> ready(programs_.size());
    for (size_t rank = 0; rank < programs_.size(); ++rank)
      for (uint32_t lane = 0; lane < programs_[rank].lanes.size(); ++lane)
        if (isReady(rank, lane)) ready[rank].push_back({lane, done_[rank][lane]});
    for (size_t rank = 0; rank < ready.size(); ++rank)
      for (const Dependency& step : ready[rank]) perform(rank, step);
    return ready;
  }

 private:
  struct Link {
    uint32_t sent = 0, taken = 0;
  };
  using LinkKey = std::tuple<int, size_t, size_t>;  // channel, from, to

  Link& link(int channel, size_t from, size_t to) { return links_[{channel, from, to}]; }

  bool isReady(size_t rank, uint32_t number) {
    const Lane& lane = programs_[rank].lanes[number];
    if (done_[rank][number] == lane.steps.size()) return false;
    const Step& step = lane.steps[done_[rank][number]];
    std::map<LinkKey, uint32_t> wanted;  // messages, or slots
    const auto has = [&](const Port& port, bool isSource) {
      if (port.kind != Port::Kind::Channel) return true;
      const auto peer = static_cast<size_t>(port.rank);
      const size_t from = isSource ? peer : rank, to = isSource ? rank : peer;
      const Link& its = link(lane.channel, from, to);
      const uint32_t free = isSource ? its.sent - its.taken : slots_ - (its.sent - its.taken);
      return ++wanted[{lane.channel, from, to}] <= free;
    };
    return std::ranges::all_of(step.after,
                               [&](const Dependency& d) { return done_[rank][d.lane] > d.step; }) &&
           std::ranges::all_of(step.sources, [&](const Port& port) { return has(port, true); }) &&
           std::ranges::all_of(step.targets, [&](const Port& port) { return has(port, false); });
  }

  void perform(size_t rank, const Dependency& at) {
    const Lane& lane = programs_[rank].lanes[at.lane];
    for (const Port& port : lane.steps[at.step].sources)
      if (port.kind == Port::Kind::Channel)
        ++link(lane.channel, static_cast<size_t>(port.rank), rank).taken;
    for (const Port& port : lane.steps[at.step].targets)
      if (port.kind == Port::Kind::Channel)
        ++link(lane.channel, rank, static_cast<size_t>(port.rank)).sent;
    ++done_[rank][at.lane];
  }

  const uint32_t slots_;
  std::vector<Program> programs_;
  std::vector<std::vector<uint32_t>> done_;  // steps, by rank and lane
  std::map<LinkKey, Link> links_;
};

}  // namespace

Waves wavesOf(const ProgramOf& programOf, int ranks, int rank, uint32_t slots) {
  Performance performance(programOf, ranks, slots);
  size_t left = 0;
  for (const Lane& lane : programOf(rank).lanes) left += lane.steps.size();
  Waves waves;
  for (;; ++waves.count) {
    const auto performed = performance.perform();
    if (std::ranges::all_of(performed, &std::vector<Dependency>::empty)) break;
    for (const auto& [lane, step] : performed[static_cast<size_t>(rank)])
      waves.turns.push_back({waves.count, lane, step});
  }
  TUTTI_ASSERT(waves.turns.size() == left, "rank ", rank, " performs ", waves.turns.size(), " of ",
               left, " steps: the others wait in a circle");
  return waves;
}

}  // namespace tutti::plan
