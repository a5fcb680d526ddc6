#include "src/tools/common/algorithm_times.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "collectives/algorithms.h"
#include "collectives/chooser.h"
#include "src/base/check.h"
#include "src/base/cores.h"
#include "src/base/env.h"
#include "src/bootstrap/host_facts.h"
#include "src/communicator/inspection.h"
#include "src/plan/hosts.h"
#include "src/plan/mapped_buffer_policy.h"
#include "src/tools/common/common_id.h"
#include "src/tools/common/median.h"
#include "src/tools/perf/perf_call.h"

namespace tutti::tools {
namespace {

// A turn lasts about so long, and has so many calls.
constexpr double kTurnUs = 2000;
// Of the calls that tell what asking takes.
constexpr uint64_t kLeastBlock = 8;
constexpr int64_t kLeastCalls = 3, kMostCalls = 300;

/// Between hosts each with all numbers of channels that the chooser knows.
std::vector<std::string> timedAlgorithms(const topology::Topology& topology) {
  std::vector<std::string> names{collectives::kPreferMapped, collectives::kPreferAttached};
  for (int i = 0; i < plan::kAlgorithmCount; ++i) {
    const std::string name = plan::toString(static_cast<plan::Algorithm>(i));
    if (topology.hosts() == 1) names.push_back(name);
    for (int channels = 1; topology.hosts() > 1 && channels <= topology.channels; channels *= 2)
      names.push_back(base::message(name, '/', channels));
  }
  return names;
}

double middleOf(std::vector<double> values) {
  return values.empty() ? NAN : medianOf(std::move(values)).middle;
}

/// A machine, and those of its processors that this process may use.
struct TimedPlace {
  std::array<char, 40> bootId{};
  cpu_set_t processors{};
};

/// How many ranks that share this one's processors come before it: also of other hosts, where those
/// are containers of one machine.
int placeOnMachine(Communicator& c) {
  TimedPlace own;
  bootstrap::bootId().copy(own.bootId.data(), own.bootId.size());
  if (::sched_getaffinity(0, sizeof own.processors, &own.processors) != 0)
    CPU_ZERO(&own.processors);
  std::vector<TimedPlace> all(static_cast<size_t>(c.size()));
  c.allGather({.send = std::as_bytes(std::span(&own, 1)),
               .recv = std::as_writable_bytes(std::span(all)),
               .type = DataType::Int8});
  return static_cast<int>(
      std::count_if(all.begin(), all.begin() + c.rank(), [&](const TimedPlace& place) {
        return place.bootId == own.bootId && CPU_EQUAL(&place.processors, &own.processors);
      }));
}

/// What a call takes with the algorithm forced; nothing where it would not be taken.
std::optional<collectives::Choice> forcedChoice(const std::string& name, const Communicator& c,
                                                const PerfOptions& o, uint64_t blockBytes) {
  try {
    collectives::Choice choice = collectives::choose(
        {.collective = o.collective,
         .count = std::max<uint64_t>(1, blockBytes / sizeOf(o.type)),
         .type = o.type,
         .op = o.op,
         .root = o.root,
         .deterministic = c.deterministic(),
         .mappable = true,
         .algorithm = name},
        communicator::Inspection::topology(c), communicator::Inspection::tuning(c));
    if (name == collectives::kPreferMapped && !choice.mapped) return {};
    if (name == collectives::kPreferAttached && !choice.attached) return {};
    return choice;
  } catch (const Error&) {
    return {};
  }
}

void sendNumber(Communicator& c, double value, int peer) {
  c.send({.send = &value, .count = 1, .type = DataType::Float64, .peer = peer});
}

double receivedNumber(Communicator& c, int peer) {
  double value = 0;
  c.receive({.recv = &value, .count = 1, .type = DataType::Float64, .peer = peer});
  return value;
}

/// By how many microseconds the rank's clock is ahead of this one's, by the fastest of several
/// round trips (Cristian, "Probabilistic clock synchronization").
double aheadOfMine(Communicator& c, int rank, int trips) {
  double ahead = 0, fastest = HUGE_VAL;
  for (int i = 0; i < trips; ++i) {
    const double begin = nowUs();
    sendNumber(c, 0, rank);
    const double there = receivedNumber(c, rank);
    const double took = nowUs() - begin;
    if (took < fastest) ahead = there - (begin + took / 2);
    fastest = std::min(fastest, took);
  }
  return ahead;
}

/// Microseconds by which this rank's clock is ahead of rank 0's. Ranks of one host share a clock.
double clockAhead(Communicator& c) {
  constexpr int kTrips = 30;
  if (plan::hostsInOrder(c.hosts()).empty()) return 0;
  if (c.rank() == 0) {
    for (int rank = 1; rank < c.size(); ++rank) sendNumber(c, aheadOfMine(c, rank, kTrips), rank);
    return 0;
  }
  for (int i = 0; i < kTrips; ++i) {
    receivedNumber(c, 0);
    sendNumber(c, nowUs(), 0);
  }
  return receivedNumber(c, 0);
}

/// The calls of one algorithm, on a communicator of its own. By `sameRanks`, of the same ranks and
/// the same for all contestants, ranks come together before each call. A communicator whose
/// algorithm is forced makes its barriers by that, too; after some, ranks go on further apart than
/// after others, and that would be measured instead of the call. And what a barrier leaves to be
/// told to its sender the next call on the same communicator may carry.
class Contestant {
 public:
  Contestant(Communicator& sameRanks, Communicator& c, double clockAhead,
             const PerfOptions& options, uint64_t bytes)
      : sameRanks_(sameRanks),
        clockAhead_(clockAhead),
        inPlace_(options.collective == plan::Collective::Broadcast),
        call_(c, options, noSeam(), bytes) {}

  /// Of the same calls on the same memory. Where memory lies, and on pages of which size, can
  /// double what a copy takes, which would tell contestants apart and not their algorithms.
  Contestant(Communicator& c, const Contestant& other)
      : sameRanks_(other.sameRanks_),
        clockAhead_(other.clockAhead_),
        inPlace_(other.inPlace_),
        call_(c, other.call_) {}

  /// Agreed on by all ranks.
  void warmUp() {
    // The executor tunes itself by the first calls, and finds whether to ask for mapped buffers.
    constexpr int kWarmups = plan::MappedBufferPolicy::kPatience;
    double last = 0;
    for (int i = 0; i < kWarmups; ++i) {
      call_.use(inPlace_);
      const double begin = nowUs();
      call_.start(inPlace_);
      last = nowUs() - begin;
    }
    calls_ =
        std::clamp(static_cast<int64_t>(kTurnUs / std::max(last, 0.1)), kLeastCalls, kMostCalls);
    sameRanks_.broadcast({.send = &calls_, .recv = &calls_, .count = 1, .type = DataType::Int64});
  }

  /// All ranks begin each call together: what is predicted is how long one call takes, not how many
  /// can be under way.
  double turn() {
    std::vector<double> begins(static_cast<size_t>(calls_)), ends(begins.size());
    for (size_t i = 0; i < begins.size(); ++i) {
      call_.use(inPlace_);
      sameRanks_.barrier();
      begins[i] = nowUs();
      call_.start(inPlace_);
      ends[i] = nowUs();
    }
    return middleOf(durations(std::move(begins), std::move(ends)));
  }

 private:
  static const PerfSeam& noSeam() {
    static const PerfSeam none;
    return none;
  }

  /// From the first rank's begin to the last one's end. No rank's own time would do: one that
  /// begins late finds all that it would have waited for.
  std::vector<double> durations(std::vector<double> begins, std::vector<double> ends) {
    const auto over = [&](std::vector<double>& values, ReduceOp op) {
      for (double& value : values) value -= clockAhead_;
      sameRanks_.allReduce({values.data(), values.data(), values.size(), DataType::Float64, op});
    };
    over(begins, ReduceOp::Min);
    over(ends, ReduceOp::Max);
    for (size_t i = 0; i < ends.size(); ++i) ends[i] -= begins[i];
    return ends;
  }

  Communicator& sameRanks_;
  const double clockAhead_;
  const bool inPlace_;  // as predictions take broadcasts to be, and no others
  PerfCall call_;
  int64_t calls_ = 0;
};

}  // namespace

double AlgorithmTime::median() const { return middleOf(turns); }

void requireNothingForced() {
  TUTTI_REQUIRE(base::env().algorithm.empty(), "TUTTI_ALGORITHM=", base::env().algorithm,
                " forces what is to be chosen: unset it");
  TUTTI_REQUIRE(base::env().algorithmFile.empty(),
                "TUTTI_ALGORITHM_FILE=", base::env().algorithmFile,
                " takes the place of what is to be chosen: unset it");
}

uint64_t bufferBytes(plan::Collective collective, int ranks, uint64_t blockBytes) {
  const bool many = plan::givesBlocks(collective) || plan::getsBlocks(collective);
  return many ? blockBytes * static_cast<uint64_t>(ranks) : blockBytes;
}

Communicator AlgorithmTimes::sameRanks(const std::string& algorithm) {
  return Communicator::create({.id = commonId(c_),
                               .rank = c_.rank(),
                               .size = c_.size(),
                               .deterministic = c_.deterministic(),
                               .algorithm = algorithm});
}

AlgorithmTimes::AlgorithmTimes(Communicator& c)
    : c_(c), sameRanks_(sameRanks("")), clockAhead_(clockAhead(c)), place_(placeOnMachine(c)) {
  if (c.size() == 1) return;
  const auto hosts = plan::hostsInOrder(c.hosts());
  for (const std::string& name : timedAlgorithms(communicator::Inspection::topology(c))) {
    bool exists = false;
    for (int i = 0; i < plan::kCollectiveCount && !exists; ++i)
      exists = collectives::exists(name, static_cast<plan::Collective>(i), c.size(), hosts);
    if (!exists) continue;
    forced_.emplace(name, sameRanks(name));
  }
}

AlgorithmTimes::~AlgorithmTimes() = default;

std::map<std::string, AlgorithmTime> AlgorithmTimes::measure(const PerfOptions& options,
                                                             uint64_t blockBytes, int turns) {
  const base::KeptToCore core(place_);
  const uint64_t bytes = bufferBytes(options.collective, c_.size(), blockBytes);
  std::vector<std::string> names;
  for (const auto& [name, communicator] : forced_)
    if (name != (options.windows ? collectives::kPreferAttached : collectives::kPreferMapped) &&
        forcedChoice(name, c_, options, blockBytes))
      names.push_back(name);
  requireMemoryForCalls(c_, options, bytes, options.windows ? 1 + names.size() : 1);
  std::map<std::string, std::unique_ptr<Contestant>> contestants;
  auto& chosen = contestants[kChosen] =
      std::make_unique<Contestant>(sameRanks_, c_, clockAhead_, options, bytes);
  for (const std::string& name : names) {
    Communicator& communicator = forced_.at(name);
    contestants[name] = options.windows ? std::make_unique<Contestant>(sameRanks_, communicator,
                                                                       clockAhead_, options, bytes)
                                        : std::make_unique<Contestant>(communicator, *chosen);
  }
  for (auto& entry : contestants) entry.second->warmUp();
  std::map<std::string, AlgorithmTime> times;
  for (int i = 0; i < turns; ++i)
    for (auto& [name, contestant] : contestants) times[name].turns.push_back(contestant->turn());
  return times;
}

AlgorithmTime AlgorithmTimes::asking(const PerfOptions& options, int turns) {
  const base::KeptToCore core(place_);
  AlgorithmTime asking;
  const auto choice = forcedChoice(collectives::kPreferMapped, c_, options, kLeastBlock);
  if (!choice) return asking;
  const uint64_t bytes = bufferBytes(options.collective, c_.size(), kLeastBlock);
  Contestant with(sameRanks_, forced_.at(collectives::kPreferMapped), clockAhead_, options, bytes);
  const auto staged = std::ranges::find_if(
      forced_, [&](const auto& entry) { return collectives::isNamed(choice->spec, entry.first); });
  Contestant without(staged->second, with);
  with.warmUp();
  without.warmUp();
  for (int i = 0; i < turns; ++i)
    asking.turns.push_back(std::max(0.0, with.turn() - without.turn()));
  return asking;
}

}  // namespace tutti::tools
