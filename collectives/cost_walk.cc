#include "collectives/cost_walk.h"

#include <algorithm>
#include <queue>

#include "src/base/check.h"
#include "src/plan/flat_plan.h"

namespace tutti::collectives {
namespace {

using plan::FlatPlan;
using plan::FlatPort;
using plan::FlatStep;
using plan::kNone;
using plan::Port;

constexpr int kMostRanksWalked = 16;
constexpr int64_t kRoundsWalked = 4;

/// The constants, as this topology makes them.
struct Rates {
  Rates(const topology::Topology& topology, const topology::Tuning& tuning) {
    const double crowd = std::max(1.0, static_cast<double>(topology.ranks) / topology.cores);
    message =
        tuning.messageMicroseconds + (topology.oversubscribed() ? tuning.yieldMicroseconds : 0);
    step = tuning.stepMicroseconds * crowd;
    entry = tuning.entryMicroseconds + (topology.oversubscribed() ? tuning.yieldMicroseconds : 0);
    // A gigabyte per second is a thousand bytes per microsecond.
    copy = crowd / (tuning.copyGigabytesPerSecond * 1e3);
    reduce = crowd / (tuning.reduceGigabytesPerSecond * 1e3);
    mapped = crowd / (tuning.mappedGigabytesPerSecond * 1e3);
  }
  double message, step, entry;  // microseconds
  double copy, reduce, mapped;  // microseconds per byte
};

/// Overhead for the step and each message beyond the first, one fold of all sources, and a copy to
/// each target (the fold writes the first one).
template <class Ports>
double durationOf(const Ports& from, const Ports& to, const Rates& rates, double chunkBytes) {
  int messages = 0, sources = 0, targets = 0, mappedPorts = 0;
  double bytes = 0;
  const auto look = [&](const auto& port, int& count) {
    messages += port.kind == Port::Kind::Channel;
    if (port.chunks == 0) return;
    ++count;
    mappedPorts += port.kind == Port::Kind::Mapped;
    bytes = port.chunks * chunkBytes;
  };
  for (const auto& port : from) look(port, sources);
  for (const auto& port : to) look(port, targets);
  double time = rates.step * std::max(1, messages);
  if (mappedPorts > 0) return time + bytes * (sources + targets) * rates.mapped;
  if (sources > 1) time += bytes * (sources * rates.reduce + (targets - 1) * rates.copy);
  if (sources == 1) time += bytes * targets * rates.copy;
  return time;
}

/// Walks the rounds of one plan.
class Walk {
 public:
  Walk(const FlatPlan& flat, const PlanSpec& spec, const Rates& rates, double chunkBytes,
       int rounds)
      : flat_(flat),
        rates_(rates),
        chunkBytes_(chunkBytes),
        rounds_(rounds),
        lanes_(flat.lanes.size()),
        wires_(flat.edges.size()),
        rankFree_(static_cast<size_t>(spec.ranks), 0),
        roundEnd_(static_cast<size_t>(rounds), 0) {}

  /// When each round was done everywhere.
  const std::vector<double>& run() {
    for (uint32_t lane = 0; lane < lanes_.size(); ++lane)
      if (flat_.lanes[lane].stepCount > 0) consider(lane);
    while (!queue_.empty()) {
      const auto [time, round, lane] = queue_.top();
      queue_.pop();
      double& free = rankFree_[static_cast<size_t>(flat_.lanes[lane].rank)];
      if (free > time) {
        queue_.push({free, round, lane});  // the rank is busy with another lane until then
        continue;
      }
      free = fire(lane, time);
    }
    return roundEnd_;
  }

 private:
  struct LaneState {
    int round = 0;
    uint32_t next = 0;
    double ready = 0;
    bool queued = false;
    std::vector<uint32_t> waiting;
    std::vector<double> ends;  // of this lane's steps, round after round
  };
  struct Wire {
    std::vector<double> arrivals;
    size_t taken = 0;
    uint32_t waiting = kNone;
  };
  struct Entry {
    double time;
    int round;  // the lanes of a busy rank take turns
    uint32_t lane;
    auto operator<=>(const Entry&) const = default;
  };

  /// Queues the lane's next step for when all that it needs is there, or notes what it waits for.
  void consider(uint32_t lane) {
    LaneState& state = lanes_[lane];
    if (state.queued || state.round == rounds_) return;
    const FlatStep& s = flat_.steps[flat_.lanes[lane].firstStep + state.next];
    double time = state.ready;
    for (uint32_t i = 0; i < s.afterCount; ++i) {
      const uint32_t awaited = flat_.afterSteps[s.after + i];
      const plan::FlatLane& other = flat_.lanes[flat_.steps[awaited].lane];
      LaneState& its = lanes_[flat_.steps[awaited].lane];
      const size_t index =
          static_cast<size_t>(state.round) * other.stepCount + awaited - other.firstStep;
      if (index >= its.ends.size()) {
        its.waiting.push_back(lane);
        return;
      }
      time = std::max(time, its.ends[index]);
    }
    for (const FlatPort& port : flat_.sources(s)) {
      if (port.kind != Port::Kind::Channel) continue;
      Wire& wire = wires_[port.edge];
      if (wire.taken == wire.arrivals.size()) {
        wire.waiting = lane;
        return;
      }
      time = std::max(time, wire.arrivals[wire.taken]);
    }
    state.queued = true;
    queue_.push({time, state.round, lane});
  }

  double fire(uint32_t lane, double start) {
    LaneState& state = lanes_[lane];
    const plan::FlatLane& l = flat_.lanes[lane];
    const FlatStep& s = flat_.steps[l.firstStep + state.next];
    const double end = start + durationOf(flat_.sources(s), flat_.targets(s), rates_, chunkBytes_);
    for (const FlatPort& port : flat_.sources(s))
      if (port.kind == Port::Kind::Channel) ++wires_[port.edge].taken;
    roundEnd_[static_cast<size_t>(state.round)] =
        std::max(roundEnd_[static_cast<size_t>(state.round)], end);
    state.ready = end;
    state.ends.push_back(end);
    state.queued = false;
    if (++state.next == l.stepCount) {
      state.next = 0;
      ++state.round;
    }
    for (const FlatPort& port : flat_.targets(s)) {
      if (port.kind != Port::Kind::Channel) continue;
      wires_[port.edge].arrivals.push_back(end + rates_.message);
      wakeReceiver(wires_[port.edge]);
    }
    consider(lane);
    std::vector<uint32_t> waiting;
    waiting.swap(state.waiting);
    for (uint32_t other : waiting) consider(other);
    return end;
  }

  void wakeReceiver(Wire& wire) {
    const uint32_t lane = wire.waiting;
    wire.waiting = kNone;
    if (lane != kNone) consider(lane);
  }

  const FlatPlan& flat_;
  const Rates& rates_;
  const double chunkBytes_;
  const int rounds_;
  std::vector<LaneState> lanes_;
  std::vector<Wire> wires_;
  std::vector<double> rankFree_;
  std::vector<double> roundEnd_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

/// What the busiest rank works in one round, however well the others overlap.
double busiestRank(const FlatPlan& flat, int ranks, const Rates& rates, double chunkBytes) {
  std::vector<double> work(static_cast<size_t>(ranks), 0);
  for (const FlatStep& s : flat.steps)
    work[static_cast<size_t>(flat.lanes[s.lane].rank)] +=
        durationOf(flat.sources(s), flat.targets(s), rates, chunkBytes);
  return *std::ranges::max_element(work);
}

double walkAll(const AlgorithmInfo& info, const PlanSpec& spec, const plan::Shape& shape,
               const Rates& rates) {
  std::vector<Program> programs;
  for (int rank = 0; rank < spec.ranks; ++rank) programs.push_back(info.build(spec, rank));
  FlatPlan flat;
  const auto error = plan::flatten(spec, programs, flat);
  TUTTI_ASSERT(!error, error->message);
  const auto chunkBytes = static_cast<double>(shape.chunkBytes(0, 0));
  const int64_t walked = std::min(shape.rounds(), kRoundsWalked);
  const std::vector<double> ends =
      Walk(flat, spec, rates, chunkBytes, static_cast<int>(walked)).run();
  const double last = ends.back();
  const double perRound = std::max(walked > 1 ? last - ends[ends.size() - 2] : last,
                                   busiestRank(flat, spec.ranks, rates, chunkBytes));
  return last + perRound * static_cast<double>(shape.rounds() - walked);
}

/// For many ranks: the chain's latency and the work of the busiest of three ranks. Lanes of one
/// step overlap their rounds, so they pay the latency once.
double estimate(const AlgorithmInfo& info, const PlanSpec& spec, const plan::Shape& shape,
                const Rates& rates) {
  const auto chunkBytes = static_cast<double>(shape.chunkBytes(0, 0));
  double busiest = 0, longest = 0;
  bool overlaps = true;
  for (int rank : {spec.root, (spec.root + 1) % spec.ranks, (spec.root + 2) % spec.ranks}) {
    double work = 0;
    for (const plan::Lane& lane : info.build(spec, rank).lanes) {
      overlaps &= lane.steps.size() <= 1;
      for (const plan::Step& step : lane.steps) {
        const double time = durationOf(step.sources, step.targets, rates, chunkBytes);
        longest = std::max(longest, time);
        work += time;
      }
    }
    busiest = std::max(busiest, work);
  }
  const double latency = info.cost(spec).steps * (rates.message + (overlaps ? longest : 0));
  const auto rounds = static_cast<double>(shape.rounds());
  return busiest * rounds + latency * (overlaps ? 1 : rounds);
}

}  // namespace

double predictMicroseconds(const AlgorithmInfo& info, const PlanSpec& spec, uint64_t blockBytes,
                           const topology::Topology& topology, const topology::Tuning& tuning) {
  const Rates rates(topology, tuning);
  const plan::Shape shape(spec, blockBytes, 1, topology.slotBytes);
  const double entry = spec.mapped.any() ? rates.entry + spec.ranks * rates.step : 0;
  if (spec.ranks > kMostRanksWalked) return entry + estimate(info, spec, shape, rates);
  return entry + walkAll(info, spec, shape, rates);
}

}  // namespace tutti::collectives
