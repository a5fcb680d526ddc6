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
constexpr int kMostRanksWalkedOnHosts = 64;
constexpr int64_t kRoundsWalked = 4;

/// The constants, as this topology makes them.
struct Rates {
  Rates(const topology::Topology& topology, const topology::Tuning& tuning) {
    const double crowd =
        std::max(1.0, static_cast<double>(topology.ranksPerHost()) / topology.cores);
    const double yield = topology.oversubscribed() ? tuning.yieldMicroseconds : 0;
    message = tuning.messageMicroseconds + yield;
    network = tuning.networkMicroseconds + yield;
    step = tuning.stepMicroseconds * crowd;
    entry = tuning.entryMicroseconds + yield;
    // A gigabyte per second is a thousand bytes per microsecond.
    link = 1 / (tuning.networkGigabytesPerSecond * 1e3);
    copy = crowd / (tuning.copyGigabytesPerSecond * 1e3);
    reduce = crowd / (tuning.reduceGigabytesPerSecond * 1e3);
    mapped = crowd / (tuning.mappedGigabytesPerSecond * 1e3);
  }
  double message, network, step, entry;  // microseconds
  double copy, reduce, mapped, link;     // microseconds per byte
};

/// The links of the hosts, one in each direction, and how long each has been in use.
class Links {
 public:
  Links(const topology::Topology& topology, const Rates& rates)
      : hostOf_(topology.hostOf),
        rates_(rates),
        leaving_(static_cast<size_t>(topology.hosts()), 0),
        coming_(leaving_.size(), 0),
        used_(2 * leaving_.size(), 0) {}

  bool several() const { return leaving_.size() > 1; }
  bool join(int from, int to) const { return several() && hostOf(from) != hostOf(to); }

  /// A message whose sender's link has come to it at `time`: when its last byte can have left.
  double leave(int from, double time, double bytes) {
    return pass(leaving_[hostOf(from)], time, bytes);
  }
  /// And when its receiver's link has passed it on.
  double come(int to, double time, double bytes) { return pass(coming_[hostOf(to)], time, bytes); }

  void use(int from, int to, double bytes) {
    if (!join(from, to)) return;
    used_[2 * hostOf(from)] += bytes * rates_.link;
    used_[2 * hostOf(to) + 1] += bytes * rates_.link;
  }
  double mostUsed() const { return std::ranges::max(used_); }

 private:
  double pass(double& freeFrom, double time, double bytes) const {
    freeFrom = std::max(freeFrom, time) + bytes * rates_.link;
    return freeFrom;
  }
  size_t hostOf(int rank) const { return static_cast<size_t>(hostOf_[static_cast<size_t>(rank)]); }

  const std::vector<int>& hostOf_;
  const Rates& rates_;
  std::vector<double> leaving_, coming_;  // free from then on
  std::vector<double> used_;              // microseconds
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
  Walk(const FlatPlan& flat, const PlanSpec& spec, const Rates& rates, const Links& links,
       double chunkBytes, int rounds)
      : flat_(flat),
        rates_(rates),
        links_(links),
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
    while (!queue_.empty() || !crossing_.empty()) {
      if (!crossing_.empty() && (queue_.empty() || crossing_.top().time <= queue_.top().time)) {
        const Crossing message = crossing_.top();
        crossing_.pop();
        cross(message);
        continue;
      }
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

  /// A message between hosts that waits for a link; first come, first served.
  struct Crossing {
    double time;
    uint64_t number;  // of those that come at the same time
    uint32_t edge;
    double bytes;
    bool hasLeft = false;
    auto operator<=>(const Crossing&) const = default;
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
      if (links_.join(l.rank, port.rank))
        crossing_.push({end, crossings_++, port.edge, port.chunks * chunkBytes_});
      else
        arrive(port.edge, end + rates_.message);
    }
    consider(lane);
    std::vector<uint32_t> waiting;
    waiting.swap(state.waiting);
    for (uint32_t other : waiting) consider(other);
    return end;
  }

  /// Bytes flow through both links at once: the second may begin as soon as the first does.
  void cross(Crossing message) {
    const plan::Edge& edge = flat_.edges[message.edge];
    if (message.hasLeft)
      return arrive(message.edge,
                    links_.come(edge.to, message.time, message.bytes) + rates_.network);
    message.time =
        links_.leave(edge.from, message.time, message.bytes) - message.bytes * rates_.link;
    message.hasLeft = true;
    crossing_.push(message);
  }

  void arrive(uint32_t edge, double time) {
    Wire& wire = wires_[edge];
    wire.arrivals.push_back(time);
    const uint32_t lane = wire.waiting;
    wire.waiting = kNone;
    if (lane != kNone) consider(lane);
  }

  const FlatPlan& flat_;
  const Rates& rates_;
  Links links_;
  const double chunkBytes_;
  const int rounds_;
  std::vector<LaneState> lanes_;
  std::vector<Wire> wires_;
  std::vector<double> rankFree_;
  std::vector<double> roundEnd_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  std::priority_queue<Crossing, std::vector<Crossing>, std::greater<>> crossing_;
  uint64_t crossings_ = 0;
};

/// What the busiest rank works in one round and how long the busiest link is in use, however well
/// the others overlap.
double busiest(const FlatPlan& flat, int ranks, const Rates& rates, Links links,
               double chunkBytes) {
  std::vector<double> work(static_cast<size_t>(ranks), 0);
  for (const FlatStep& s : flat.steps) {
    const int rank = flat.lanes[s.lane].rank;
    work[static_cast<size_t>(rank)] +=
        durationOf(flat.sources(s), flat.targets(s), rates, chunkBytes);
    for (const FlatPort& port : flat.targets(s))
      if (port.kind == Port::Kind::Channel) links.use(rank, port.rank, port.chunks * chunkBytes);
  }
  return std::max(std::ranges::max(work), links.mostUsed());
}

double walkAll(const AlgorithmInfo& info, const PlanSpec& spec, const plan::Shape& shape,
               const Rates& rates, const Links& links) {
  std::vector<Program> programs;
  for (int rank = 0; rank < spec.ranks; ++rank) programs.push_back(info.build(spec, rank));
  FlatPlan flat;
  const auto error = plan::flatten(spec, programs, flat);
  TUTTI_ASSERT(!error, error->message);
  const auto chunkBytes = static_cast<double>(shape.chunkBytes(0, 0));
  const int64_t walked = std::min(shape.rounds(), kRoundsWalked);
  const std::vector<double> ends =
      Walk(flat, spec, rates, links, chunkBytes, static_cast<int>(walked)).run();
  const double last = ends.back();
  const double perRound = std::max(walked > 1 ? last - ends[ends.size() - 2] : last,
                                   busiest(flat, spec.ranks, rates, links, chunkBytes));
  return last + perRound * static_cast<double>(shape.rounds() - walked);
}

/// For many ranks: the chain's latency, and the work of the busiest of some ranks and the use of
/// their host's link. Lanes of one step overlap their rounds, so they pay the latency once.
class Estimate {
 public:
  Estimate(const AlgorithmInfo& info, const PlanSpec& spec, const plan::Shape& shape,
           const Rates& rates, const Links& links)
      : info_(info),
        spec_(spec),
        rates_(rates),
        links_(links),
        rounds_(static_cast<double>(shape.rounds())),
        chunkBytes_(static_cast<double>(shape.chunkBytes(0, 0))) {}

  double microseconds() {
    for (int k = 0; k < spec_.ranks; ++k) {
      const int rank = (spec_.root + k) % spec_.ranks;
      if (k < 3 || (links_.several() && !links_.join(spec_.root, rank))) look(rank);
    }
    const int steps = info_.cost(spec_).steps;
    const double across = stepsAcross(steps);
    const double latency = (steps - across) * (rates_.message + (overlaps_ ? longest_ : 0)) +
                           across * (rates_.network + (overlaps_ ? longestAcross_ : 0));
    return std::max(busiest_, links_.mostUsed()) * rounds_ + latency * (overlaps_ ? 1 : rounds_);
  }

 private:
  void look(int rank) {
    double work = 0;
    for (const plan::Lane& lane : info_.build(spec_, rank).lanes) {
      overlaps_ &= lane.steps.size() <= 1;
      for (const plan::Step& step : lane.steps) {
        const double time = durationOf(step.sources, step.targets, rates_, chunkBytes_);
        longest_ = std::max(longest_, time);
        work += time;
        for (const Port& port : step.sources) use(port, port.rank, rank, 0);
        for (const Port& port : step.targets) use(port, rank, port.rank, time);
      }
    }
    busiest_ = std::max(busiest_, work);
  }

  void use(const Port& port, int from, int to, double time) {
    if (port.kind != Port::Kind::Channel) return;
    ++messages_;
    if (!links_.join(from, to)) return;
    ++messagesAcross_;
    const double bytes = port.chunks * chunkBytes_;
    links_.use(from, to, bytes);
    longestAcross_ = std::max(longestAcross_, time + bytes * rates_.link);
  }

  /// Where the plan does not say: as large a part of the chain as of all messages, and one at
  /// least.
  double stepsAcross(int steps) const {
    if (!spec_.hosts.empty()) return info_.cost(spec_).hostSteps;
    if (messagesAcross_ == 0) return 0;
    return std::clamp(steps * messagesAcross_ / messages_, 1.0, std::max(1.0, 1.0 * steps));
  }

  const AlgorithmInfo& info_;
  const PlanSpec& spec_;
  const Rates& rates_;
  Links links_;
  const double rounds_, chunkBytes_;
  double busiest_ = 0, longest_ = 0, longestAcross_ = 0;
  double messages_ = 0, messagesAcross_ = 0;
  bool overlaps_ = true;
};

}  // namespace

double predictMicroseconds(const AlgorithmInfo& info, const PlanSpec& spec, uint64_t blockBytes,
                           const topology::Topology& topology, const topology::Tuning& tuning) {
  const Rates rates(topology, tuning);
  const plan::Shape shape(spec, blockBytes, 1, topology.slotBytes);
  const double entry = spec.mapped.any() ? rates.entry + spec.ranks * rates.step : 0;
  const Links links(topology, rates);
  if (spec.ranks > (links.several() ? kMostRanksWalkedOnHosts : kMostRanksWalked))
    return entry + Estimate(info, spec, shape, rates, links).microseconds();
  return entry + walkAll(info, spec, shape, rates, links);
}

}  // namespace tutti::collectives
