#include "collectives/walk.h"

#include <optional>
#include <queue>

#include "collectives/run_queue.h"
#include "src/base/check.h"

namespace tutti::collectives {
namespace {

using plan::FlatPlan;
using plan::FlatPort;
using plan::FlatStep;
using plan::kNone;
using plan::Port;

constexpr int64_t kRoundsWalked = 4;

/// Which steps take the messages of each edge, in one round.
class Receipts {
 public:
  explicit Receipts(const FlatPlan& flat) : first_(flat.edges.size() + 1, 0) {
    eachReceipt(flat, [&](uint32_t edge, uint32_t) { ++first_[edge + 1]; });
    for (size_t edge = 1; edge < first_.size(); ++edge) first_[edge] += first_[edge - 1];
    steps_.resize(first_.back());
    std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
    eachReceipt(flat, [&](uint32_t edge, uint32_t step) { steps_[next[edge]++] = step; });
  }
  /// By the `number`th message of the edge, counted over all rounds.
  uint32_t stepFor(uint32_t edge, uint32_t number) const {
    return steps_[first_[edge] + number % (first_[edge + 1] - first_[edge])];
  }

 private:
  template <class Visit>
  static void eachReceipt(const FlatPlan& flat, Visit visit) {
    for (uint32_t step = 0; step < flat.steps.size(); ++step)
      for (const FlatPort& port : flat.sources(flat.steps[step]))
        if (port.kind == Port::Kind::Channel) visit(port.edge, step);
  }

  std::vector<uint32_t> first_, steps_;
};

/// The path of each edge: the links that the senders and the receivers among the flat plan's ranks
/// have. Other ranks' links are like those of the ranks that stand for them.
std::vector<Links::Path> pathsOf(const FlatPlan& flat, const Links& links) {
  std::vector<Links::Path> paths(flat.edges.size());
  for (uint32_t number = 0; number < flat.steps.size(); ++number) {
    const int rank = flat.lanes[flat.steps[number].lane].rank;
    for (const FlatPort& port : flat.targets(flat.steps[number])) {
      if (port.kind != Port::Kind::Channel) continue;
      const plan::Edge& edge = flat.edges[port.edge];
      Links::Path& path = paths[port.edge];
      path = links.path(edge.from, edge.to);
      const Links::Path leaving = links.path(rank, port.rank);
      std::copy_n(leaving.links.begin(), path.ofSender, path.links.begin());
    }
  }
  return paths;
}

/// Who has which core, and until when.
class CoreUse {
 public:
  struct Core {
    double free = 0;
    int rank = -1;
  };
  explicit CoreUse(const Cores& cores) : cores_(cores) {}

  /// Which one a rank takes: the one that it had, where that is free, or else the first to be free.
  /// Nothing where each rank has its own.
  Core* coreFor(int rank, double time) {
    if (cores_.perHost == 0) return nullptr;
    const size_t host = cores_.host(rank);
    if (host >= hosts_.size())
      hosts_.resize(host + 1, std::vector<Core>(static_cast<size_t>(cores_.perHost)));
    const auto had = [&](const Core& core) { return core.rank == rank && core.free <= time; };
    std::vector<Core>& its = hosts_[host];
    const auto found = std::ranges::find_if(its, had);
    return found != its.end() ? &*found : &*std::ranges::min_element(its, {}, &Core::free);
  }
  double handOver(const Core& core, int rank) const {
    return core.rank == rank ? 0 : cores_.handOver;
  }

 private:
  const Cores& cores_;
  std::vector<std::vector<Core>> hosts_;
};

/// Walks the rounds of one plan.
class PlanWalk {
 public:
  PlanWalk(const FlatPlan& flat, const StepRates& rates, const Links& links,
           const std::vector<Links::Path>& paths, double chunkBytes, int rounds, const Cores& cores)
      : flat_(flat),
        rates_(rates),
        links_(links),
        paths_(paths),
        chunkBytes_(chunkBytes),
        rounds_(rounds),
        cores_(cores),
        lanes_(flat.lanes.size()),
        wires_(flat.edges.size()),
        rankFree_(rankCount(flat), 0),
        linkFree_(links.count(), 0),
        roundEnd_(static_cast<size_t>(rounds), 0),
        crossing_(rankFree_.size() + links.count()) {
    for (const FlatStep& step : flat.steps)
      if (step.awaited) lanes_[step.lane].awaited = true;
    if (links.servesByReceipt()) receipts_.emplace(flat);
  }

  /// When each round was done everywhere.
  const std::vector<double>& run() {
    for (uint32_t lane = 0; lane < lanes_.size(); ++lane)
      if (flat_.lanes[lane].stepCount > 0) consider(lane);
    while (!queue_.empty() || !crossing_.empty()) {
      if (!crossing_.empty() && (queue_.empty() || crossing_.top().time <= queue_.top().time)) {
        cross(crossing_.pop());
        continue;
      }
      const auto [time, round, lane] = queue_.top();
      queue_.pop();
      const int rank = flat_.lanes[lane].rank;
      double& free = rankFree_[static_cast<size_t>(rank)];
      CoreUse::Core* const core = cores_.coreFor(rank, time);
      const double begin = core ? std::max(free, core->free) : free;
      if (begin > time) {
        // The rank is busy with another lane until then, or the cores are with other ranks.
        queue_.push({begin, round, lane});
        continue;
      }
      free = fire(lane, time + (core ? cores_.handOver(*core, rank) : 0));
      if (core) *core = {free, rank};
    }
    for (uint32_t lane = 0; lane < lanes_.size(); ++lane)
      TUTTI_ASSERT(flat_.lanes[lane].stepCount == 0 || lanes_[lane].round == rounds_, "rank ",
                   flat_.lanes[lane].rank, " waits in round ", lanes_[lane].round, " of ", rounds_);
    return roundEnd_;
  }

 private:
  struct LaneState {
    int round = 0;
    uint32_t next = 0;
    double ready = 0;
    uint32_t aftersSeen = 0, sourcesSeen = 0;  // of the next step; `time` is when these were there
    double time = 0;
    bool queued = false;
    bool awaited = false;  // one of its steps
    std::vector<uint32_t> waiting;
    std::vector<double> ends;  // of an awaited lane's steps, round after round
  };
  struct Wire {
    ListPool<double>::List arrivals;  // not yet taken
    uint32_t left = 0;                // messages that are on the receiver's side, or were
    uint32_t waiting = kNone;
  };
  struct Entry {
    double time;
    int round;  // the lanes of a busy rank take turns
    uint32_t lane;
    auto operator<=>(const Entry&) const = default;
  };

  /// A message that waits for a link; first come, first served. Where links ask for receipts, of
  /// those that come at the same time all go on to the receivers' side before any is served there.
  struct Crossing {
    double time;
    uint32_t turn =
        0;             // on the receiver's side, where links ask for it: by the step that takes it,
    double ahead = 0;  // and less the time that it has yet to go behind the links
    uint64_t number;   // of those that come at the same time
    uint32_t edge;
    uint32_t chunks;
    uint32_t hop = 0;
    double passed = 0;  // when its last byte had passed the links before
    auto operator<=>(const Crossing&) const = default;
  };

  static size_t rankCount(const FlatPlan& flat) {
    int ranks = 0;
    for (const plan::FlatLane& lane : flat.lanes) ranks = std::max(ranks, lane.rank + 1);
    return static_cast<size_t>(ranks);
  }

  /// Queues the lane's next step for when all that it needs is there, or notes what it waits for.
  void consider(uint32_t lane) {
    LaneState& state = lanes_[lane];
    if (state.queued || state.round == rounds_) return;
    const FlatStep& s = flat_.steps[flat_.lanes[lane].firstStep + state.next];
    state.time = std::max(state.time, state.ready);
    for (; state.aftersSeen < s.afterCount; ++state.aftersSeen) {
      const uint32_t awaited = flat_.afterSteps[s.after + state.aftersSeen];
      const plan::FlatLane& other = flat_.lanes[flat_.steps[awaited].lane];
      LaneState& its = lanes_[flat_.steps[awaited].lane];
      const size_t index =
          static_cast<size_t>(state.round) * other.stepCount + awaited - other.firstStep;
      if (index >= its.ends.size()) {
        its.waiting.push_back(lane);
        return;
      }
      state.time = std::max(state.time, its.ends[index]);
    }
    for (; state.sourcesSeen < s.sources; ++state.sourcesSeen) {
      const FlatPort& port = flat_.sources(s)[state.sourcesSeen];
      if (port.kind != Port::Kind::Channel) continue;
      Wire& wire = wires_[port.edge];
      if (wire.arrivals.empty()) {
        wire.waiting = lane;
        return;
      }
      state.time = std::max(state.time, arrivals_.front(wire.arrivals));
    }
    state.queued = true;
    queue_.push({state.time, state.round, lane});
  }

  /// Returns when the rank is free again.
  double fire(uint32_t lane, double start) {
    const plan::FlatLane& l = flat_.lanes[lane];
    const FlatStep& s = flat_.steps[l.firstStep + lanes_[lane].next];
    const double end = start + durationOf(flat_.sources(s), flat_.targets(s), rates_, chunkBytes_);
    for (const FlatPort& port : flat_.sources(s))
      if (port.kind == Port::Kind::Channel) arrivals_.pop(wires_[port.edge].arrivals);
    finish(lanes_[lane], l.stepCount, end);
    for (const FlatPort& port : flat_.targets(s))
      if (port.kind == Port::Kind::Channel) send(port, l.rank, end);
    consider(lane);
    std::vector<uint32_t> waiting;
    waiting.swap(lanes_[lane].waiting);
    for (uint32_t other : waiting) consider(other);
    return end;
  }

  void finish(LaneState& state, uint32_t stepCount, double end) {
    double& roundEnd = roundEnd_[static_cast<size_t>(state.round)];
    roundEnd = std::max(roundEnd, end);
    state.ready = end;
    if (state.awaited) state.ends.push_back(end);
    state.queued = false;
    state.aftersSeen = state.sourcesSeen = 0;
    state.time = 0;
    if (++state.next < stepCount) return;
    state.next = 0;
    ++state.round;
  }

  void send(const FlatPort& port, int rank, double time) {
    const Links::Path& path = paths_[port.edge];
    if (path.count == 0) return arrive(port.edge, time + path.microseconds);
    pass({.time = time, .number = crossings_++, .edge = port.edge, .chunks = port.chunks},
         static_cast<uint32_t>(rank));
  }

  /// To the link of its next hop. Messages of one rank come in order of time, and so do those that
  /// one link lets through: these are the queue's runs.
  void pass(Crossing message, uint32_t run) {
    const Links::Path& path = paths_[message.edge];
    if (receipts_ && message.hop == path.ofSender) {
      message.turn = 1 + receipts_->stepFor(message.edge, wires_[message.edge].left++);
      message.ahead = -path.microseconds;
    }
    crossing_.push(run, message);
  }

  /// The next link may begin as soon as this one does.
  void cross(Crossing message) {
    const Links::Path& path = paths_[message.edge];
    const uint32_t link = path.links[message.hop];
    const double needed = links_.microsecondsOf(link, message.chunks * chunkBytes_);
    double& free = linkFree_[link];
    const double begin = std::max(free, message.time);
    free = begin + needed;
    message.passed = std::max(message.passed, free);
    if (++message.hop == path.count)
      return arrive(message.edge, message.passed + path.microseconds);
    message.time = begin;
    pass(message, static_cast<uint32_t>(rankFree_.size()) + link);
  }

  void arrive(uint32_t edge, double time) {
    Wire& wire = wires_[edge];
    arrivals_.push(wire.arrivals, time);
    const uint32_t lane = wire.waiting;
    wire.waiting = kNone;
    if (lane != kNone) consider(lane);
  }

  const FlatPlan& flat_;
  const StepRates& rates_;
  const Links& links_;
  const std::vector<Links::Path>& paths_;
  const double chunkBytes_;
  const int rounds_;
  CoreUse cores_;
  std::vector<LaneState> lanes_;
  std::vector<Wire> wires_;
  ListPool<double> arrivals_;
  std::vector<double> rankFree_, linkFree_;  // free from then on
  std::vector<double> roundEnd_;
  std::optional<Receipts> receipts_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  RunQueue<Crossing> crossing_;
  uint64_t crossings_ = 0;
};

/// What the busiest rank works in one round and how long the busiest link and the busiest host's
/// cores are in use, however well the others overlap.
double busiest(const FlatPlan& flat, const StepRates& rates, const Links& links,
               const std::vector<Links::Path>& paths, double chunkBytes, const Cores& cores) {
  double most = 0, work = 0;
  std::vector<double> onHost;
  int worker = -1;
  LinkUse use(links);
  for (const FlatStep& s : flat.steps) {
    const int rank = flat.lanes[s.lane].rank;
    if (rank != worker) work = 0;
    worker = rank;
    const double time = durationOf(flat.sources(s), flat.targets(s), rates, chunkBytes);
    work += time;
    most = std::max(most, work);
    if (cores.perHost > 0) {
      const size_t host = cores.host(rank);
      if (host >= onHost.size()) onHost.resize(host + 1, 0);
      onHost[host] += time / cores.perHost;
      most = std::max(most, onHost[host]);
    }
    for (const FlatPort& port : flat.targets(s))
      if (port.kind == Port::Kind::Channel) use.add(paths[port.edge], port.chunks * chunkBytes);
  }
  return std::max(most, use.most());
}

}  // namespace

double LinkUse::most() const { return used_.empty() ? 0 : std::ranges::max(used_); }

double walkMicroseconds(const FlatPlan& flat, const StepRates& rates, const Links& links,
                        double chunkBytes, int64_t rounds, const Cores& cores) {
  const int64_t walked = std::min(rounds, kRoundsWalked);
  const std::vector<Links::Path> paths = pathsOf(flat, links);
  const std::vector<double> ends =
      PlanWalk(flat, rates, links, paths, chunkBytes, static_cast<int>(walked), cores).run();
  const double last = ends.back();
  const double perRound = std::max(walked > 1 ? last - ends[ends.size() - 2] : last,
                                   busiest(flat, rates, links, paths, chunkBytes, cores));
  return last + perRound * static_cast<double>(rounds - walked);
}

uint64_t walkEvents(const FlatPlan& flat, const Links& links, int64_t rounds) {
  uint64_t events = flat.steps.size();
  for (const FlatStep& s : flat.steps)
    for (const FlatPort& port : flat.targets(s))
      if (port.kind == Port::Kind::Channel)
        events += links.path(flat.lanes[s.lane].rank, port.rank).count;
  return events * static_cast<uint64_t>(std::min(rounds, kRoundsWalked));
}

}  // namespace tutti::collectives
