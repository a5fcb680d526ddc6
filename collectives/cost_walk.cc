#include "collectives/cost_walk.h"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>

#include "collectives/walk.h"
#include "src/base/check.h"

namespace tutti::collectives {
namespace {

using plan::Port;

constexpr int kMostRanksWalked = 16;
constexpr int kMostRanksWalkedOnHosts = 64;
constexpr double kHandOversLate = 2;  // fitted, as the constants are

/// The constants, as this topology makes them.
struct Rates {
  Rates(const topology::Topology& topology, const topology::Tuning& tuning, Protocol protocol) {
    crowd = std::max(1.0, static_cast<double>(topology.ranksPerHost()) / topology.cores);
    // A core goes round the ranks that share it: those that wait look, and hand it on. A receiver
    // that has handed on its own sees a message some hand-overs late.
    const double once = topology.oversubscribed() ? tuning.yieldMicroseconds : 0;
    yield = crowd * once;
    message = tuning.messageMicroseconds + kHandOversLate * once;
    network = tuning.networkMicroseconds;
    hostMemory = tuning.hostMemoryMicroseconds;
    hostMemoryLink = 1 / (tuning.hostMemoryGigabytesPerSecond * 1e3);
    entry = tuning.entryMicroseconds + yield * crowd;  // every rank waits for all the others
    // A gigabyte per second is a thousand bytes per microsecond.
    link = 1 / (tuning.networkGigabytesPerSecond * 1e3);
    gap = tuning.networkGapMicroseconds;
    steps = {.step = tuning.stepMicroseconds,
             .copy = 1 / (tuning.copyGigabytesPerSecond * 1e3),
             .reduce = 1 / (tuning.reduceGigabytesPerSecond * 1e3),
             .mapped = 1 / (tuning.mappedGigabytesPerSecond * 1e3)};
    if (protocol == Protocol::Attached) {
      steps.read = tuning.attachMicroseconds;
      steps.readByte = 1 / (tuning.attachGigabytesPerSecond * 1e3);
    }
    if (topology.oversubscribed())
      cores = {.hostOf = topology.hostOf, .perHost = topology.cores, .handOver = yield};
  }
  double message, network, gap, entry, yield;  // microseconds; yield: a core's whole round
  double link;                                 // microseconds per byte
  double hostMemory, hostMemoryLink;           // the same of ranks that are apart
  double crowd;                                // how many ranks share a core
  StepRates steps;                             // of a rank that shares none
  Cores cores;
};

/// Those of the hosts, one in each direction, which the host's ranks share. Behind them, where some
/// ranks are apart, those of each rank to its host's memory, one in each direction. Other messages
/// inside a host pass none.
class HostLinks final : public Links {
 public:
  HostLinks(const topology::Topology& topology, const Rates& rates)
      : topology_(topology), hosts_(topology.hosts()), rates_(rates) {}

  bool several() const { return hosts_ > 1; }
  bool haveApart() const { return !topology_.apart.empty(); }
  bool join(int from, int to) const { return several() && hostOf(from) != hostOf(to); }

  size_t count() const override {
    return ofHosts() + (haveApart() ? 2 * static_cast<size_t>(topology_.ranks) : 0);
  }
  double microsecondsPerByte(uint32_t link) const override {
    return link < ofHosts() ? rates_.link : rates_.hostMemoryLink;
  }
  double microsecondsPerMessage(uint32_t link) const override {
    return link < ofHosts() ? rates_.gap : 0;
  }
  bool servesByReceipt() const override { return false; }
  Path path(int from, int to) const override {
    if (!join(from, to) && haveApart() && topology_.areApart(from, to))
      return {.microseconds = rates_.hostMemory,
              .links = {ofHosts() + 2 * static_cast<uint32_t>(from),
                        ofHosts() + 2 * static_cast<uint32_t>(to) + 1},
              .count = 2,
              .ofSender = 1};
    if (!join(from, to)) return {.microseconds = rates_.message};
    return {.microseconds = rates_.network,
            .links = {2 * hostOf(from), 2 * hostOf(to) + 1},
            .count = 2,
            .ofSender = 1};
  }

 private:
  uint32_t hostOf(int rank) const {
    return static_cast<uint32_t>(topology_.hostOf[static_cast<size_t>(rank)]);
  }
  uint32_t ofHosts() const { return 2 * static_cast<uint32_t>(hosts_); }

  const topology::Topology& topology_;
  const int hosts_;
  const Rates& rates_;
};

/// A broadcast is taken to be in place at its root, as most are: the root's step gives to others
/// alone.
template <class Ports>
void leaveOutOwn(Ports sources, Ports targets) {
  bool gives = false;
  for (auto& port : targets) {
    gives |= port.kind != Port::Kind::Local;
    if (port.kind == Port::Kind::Local) port.chunks = 0;
  }
  if (gives) return;
  for (auto& port : sources) port.chunks = 0;
}

bool isRootOfBroadcast(const PlanSpec& spec, int rank) {
  return spec.collective == Collective::Broadcast && rank == spec.root;
}

plan::FlatPlan flatPlan(const AlgorithmInfo& info, const PlanSpec& spec) {
  std::vector<Program> programs;
  for (int rank = 0; rank < spec.ranks; ++rank) programs.push_back(info.build(spec, rank));
  plan::FlatPlan flat;
  const auto error = plan::flatten(spec, programs, flat);
  TUTTI_ASSERT(!error, error->message);
  for (const plan::FlatStep& step : flat.steps)
    if (isRootOfBroadcast(spec, flat.lanes[step.lane].rank)) {
      plan::FlatPort* const ports = flat.ports.data() + step.ports;
      leaveOutOwn(std::span(ports, step.sources), std::span(ports + step.sources, step.targets));
    }
  return flat;
}

/// The same plans are walked for every size, and thousands of times where constants are fitted.
/// Those of many ranks are large, and are not kept.
constexpr int kMostRanksKept = 16;
class KeptFlatPlans {
 public:
  ~KeptFlatPlans() { areGone = true; }

  const plan::FlatPlan& of(const AlgorithmInfo& info, const PlanSpec& spec) {
    const uint64_t hash = spec.hash();
    const auto [first, last] = plans_.equal_range(hash);
    for (auto it = first; it != last; ++it)
      if (it->second.first == spec) return it->second.second;
    if (plans_.size() >= kMost) plans_.clear();
    return plans_.emplace(hash, std::pair(spec, flatPlan(info, spec)))->second.second;
  }

  /// Exit handlers and static objects make calls behind the end of this thread's objects.
  static inline thread_local bool areGone = false;

 private:
  static constexpr size_t kMost = 1024;

  std::unordered_multimap<uint64_t, std::pair<PlanSpec, plan::FlatPlan>> plans_;
};

double walkAll(const AlgorithmInfo& info, const PlanSpec& spec, const plan::PlanShape& shape,
               const Rates& rates, const HostLinks& links) {
  const auto walk = [&](const plan::FlatPlan& flat) {
    return walkMicroseconds(flat, rates.steps, links, static_cast<double>(shape.chunkBytes(0, 0)),
                            shape.rounds(), rates.cores);
  };
  if (spec.ranks > kMostRanksKept || KeptFlatPlans::areGone) return walk(flatPlan(info, spec));
  thread_local KeptFlatPlans kept;
  return walk(kept.of(info, spec));
}

/// For many ranks: the chain's latency, and the work of the busiest of some ranks and the use of
/// their host's link. Lanes of one step overlap their rounds, so they pay the latency once.
class Estimate {
 public:
  Estimate(const AlgorithmInfo& info, const PlanSpec& spec, const plan::PlanShape& shape,
           const Rates& rates, const HostLinks& links)
      : info_(info),
        spec_(spec),
        rates_(rates),
        links_(links),
        use_(links),
        rounds_(static_cast<double>(shape.rounds())),
        chunkBytes_(static_cast<double>(shape.chunkBytes(0, 0))) {}

  double microseconds() {
    for (int k = 0; k < spec_.ranks; ++k) {
      const int rank = (spec_.root + k) % spec_.ranks;
      if (k < 3 || (links_.several() && !links_.join(spec_.root, rank))) look(rank);
    }
    const int steps = info_.cost(spec_).steps;
    const double across = stepsAcross(steps);
    const double latency = steps * rates_.yield +
                           (steps - across) * (rates_.message + (overlaps_ ? longest_ : 0)) +
                           across * (rates_.network + (overlaps_ ? longestAcross_ : rates_.gap));
    return std::max(busiest_, use_.most()) * rounds_ + latency * (overlaps_ ? 1 : rounds_);
  }

 private:
  void look(int rank) {
    double work = 0;
    Program program = info_.build(spec_, rank);
    for (plan::Lane& lane : program.lanes) {
      overlaps_ &= lane.steps.size() <= 1;
      for (plan::Step& step : lane.steps) {
        if (isRootOfBroadcast(spec_, rank))
          leaveOutOwn(std::span(step.sources), std::span(step.targets));
        const double time =
            rates_.crowd * durationOf(step.sources, step.targets, rates_.steps, chunkBytes_);
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
    const double bytes = port.chunks * chunkBytes_;
    use_.add(links_.path(from, to), bytes);
    if (!links_.join(from, to)) return;
    ++messagesAcross_;
    longestAcross_ = std::max(longestAcross_, time + rates_.gap + bytes * rates_.link);
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
  const HostLinks& links_;
  LinkUse use_;
  const double rounds_, chunkBytes_;
  double busiest_ = 0, longest_ = 0, longestAcross_ = 0;
  double messages_ = 0, messagesAcross_ = 0;
  bool overlaps_ = true;
};

/// Whether the call needs a general operation, where others of its size do not
/// (executor::ShortProgram).
bool isGeneral(const PlanSpec& spec, const plan::PlanShape& shape, uint64_t blockBytes,
               const HostLinks& links) {
  if (links.several() || links.haveApart()) return false;
  return spec.protocol != Protocol::Simple || shape.rounds() > 1 ||
         blockBytes * plan::mostBlocksOf(spec) > plan::kMostShortBytes;
}

}  // namespace

double predictMicroseconds(const AlgorithmInfo& info, const PlanSpec& spec, uint64_t blockBytes,
                           const topology::Topology& topology, const topology::Tuning& tuning) {
  const Rates rates(topology, tuning, spec.protocol);
  const plan::PlanShape shape(spec, blockBytes, 1, topology.slotBytes);
  const HostLinks links(topology, rates);
  double ahead =
      isGeneral(spec, shape, blockBytes, links) ? rates.crowd * tuning.callMicroseconds : 0;
  if (spec.mapped.any()) ahead += rates.entry + topology.ranks * rates.crowd * rates.steps.step;
  if (spec.ranks >
      (links.several() || links.haveApart() ? kMostRanksWalkedOnHosts : kMostRanksWalked))
    return ahead + Estimate(info, spec, shape, rates, links).microseconds();
  return ahead + walkAll(info, spec, shape, rates, links);
}

}  // namespace tutti::collectives
