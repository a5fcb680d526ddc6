#include "src/tools/algorithm_times.h"

#include <algorithm>
#include <cmath>

#include "collectives/algorithms.h"
#include "collectives/chooser.h"
#include "src/base/cores.h"
#include "src/communicator/inspection.h"
#include "src/plan/hosts.h"
#include "src/tools/common_id.h"
#include "src/tools/perf_call.h"

namespace tutti::tools {
namespace {

// A turn lasts about so long, and has so many calls.
constexpr double kTurnUs = 2000;
constexpr int64_t kLeastCalls = 3, kMostCalls = 300;

std::vector<std::string> algorithmNames() {
  std::vector<std::string> names{"mapped"};
  for (int i = 0; i < plan::kAlgorithmCount; ++i)
    names.push_back(plan::toString(static_cast<plan::Algorithm>(i)));
  return names;
}

double medianOf(std::vector<double> values) {
  if (values.empty()) return NAN;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// How many ranks of its host come before this one.
int placeOnHost(const Communicator& c) {
  const auto& hosts = c.hosts();
  const auto own = hosts.begin() + c.rank();
  return static_cast<int>(std::count(hosts.begin(), own, *own));
}

/// Whether the algorithm is one that such a call can take, and that forcing it would take.
bool runs(const std::string& name, const Communicator& c, const PerfOptions& o) {
  if (name == "mapped" && !o.windows) return false;
  try {
    const collectives::Choice choice = collectives::choose({.collective = o.collective,
                                                            .count = 1,
                                                            .type = o.type,
                                                            .op = o.op,
                                                            .root = o.root,
                                                            .deterministic = c.deterministic(),
                                                            .mappable = true,
                                                            .algorithm = name},
                                                           communicator::Inspection::topology(c),
                                                           communicator::Inspection::tuning(c));
    return name != "mapped" || choice.mapped;
  } catch (const Error&) {
    return false;
  }
}

/// The calls of one algorithm.
class Contestant {
 public:
  Contestant(Communicator& c, const PerfOptions& options, uint64_t bytes)
      : c_(c), call_(c, options, noSeam(), bytes) {}

  /// Agreed on by all ranks.
  void warmUp() {
    constexpr int kWarmups = 3;  // the executor tunes itself by the first calls
    double last = 0;
    for (int i = 0; i < kWarmups; ++i) {
      const double begin = nowUs();
      call_.start(false);
      last = nowUs() - begin;
    }
    calls_ =
        std::clamp(static_cast<int64_t>(kTurnUs / std::max(last, 0.1)), kLeastCalls, kMostCalls);
    c_.broadcast({.send = &calls_, .recv = &calls_, .count = 1, .type = DataType::Int64});
  }

  /// All ranks begin each call together: what is predicted is how long one call takes, not how many
  /// can be under way.
  double turn() {
    std::vector<double> us(static_cast<size_t>(calls_));
    for (double& t : us) {
      c_.barrier();
      const double begin = nowUs();
      call_.start(false);
      t = nowUs() - begin;
    }
    c_.allReduce({us.data(), us.data(), us.size(), DataType::Float64, ReduceOp::Max});
    return medianOf(std::move(us));
  }

 private:
  static const PerfSeam& noSeam() {
    static const PerfSeam none;
    return none;
  }
  Communicator& c_;
  PerfCall call_;
  int64_t calls_ = 0;
};

}  // namespace

double AlgorithmTime::median() const { return medianOf(turns); }

uint64_t bufferBytes(plan::Collective collective, int ranks, uint64_t blockBytes) {
  const bool many = plan::givesBlocks(collective) || plan::getsBlocks(collective);
  return many ? blockBytes * static_cast<uint64_t>(ranks) : blockBytes;
}

AlgorithmTimes::AlgorithmTimes(Communicator& c) : c_(c) {
  if (c.size() == 1) return;
  const auto hosts = plan::hostsInOrder(c.hosts());
  for (const std::string& name : algorithmNames()) {
    bool exists = false;
    for (int i = 0; i < plan::kCollectiveCount && !exists; ++i)
      exists = collectives::exists(name, static_cast<plan::Collective>(i), c.size(), hosts);
    if (!exists) continue;
    forced_.emplace(name, Communicator::create({.id = commonId(c),
                                                .rank = c.rank(),
                                                .size = c.size(),
                                                .deterministic = c.deterministic(),
                                                .algorithm = name}));
  }
}

AlgorithmTimes::~AlgorithmTimes() = default;

std::map<std::string, AlgorithmTime> AlgorithmTimes::measure(const PerfOptions& options,
                                                             uint64_t blockBytes, int turns) {
  const base::KeptToCore core(placeOnHost(c_));
  const uint64_t bytes = bufferBytes(options.collective, c_.size(), blockBytes);
  std::map<std::string, std::unique_ptr<Contestant>> contestants;
  contestants[kChosen] = std::make_unique<Contestant>(c_, options, bytes);
  for (auto& [name, communicator] : forced_)
    if (runs(name, c_, options))
      contestants[name] = std::make_unique<Contestant>(communicator, options, bytes);
  for (auto& entry : contestants) entry.second->warmUp();
  std::map<std::string, AlgorithmTime> times;
  for (int i = 0; i < turns; ++i)
    for (auto& [name, contestant] : contestants) times[name].turns.push_back(contestant->turn());
  return times;
}

}  // namespace tutti::tools
