#include "parallel/planner/predictor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "parallel/pipeline/timeline.h"

namespace tutti::parallel {

namespace {

// Along so few stages each is run; of more those that can differ.
constexpr int kStagesRun = 4;
// A step's longest action, in the whole numbers of a timeline.
constexpr double kTimelineUnits = 20'000;

const std::set<std::string> kUpdateKernels = {"adamW", "sgd", "addSquares"};

bool within(AxisSet axes, AxisSet others) { return axes.without(others).empty(); }

const std::set<std::string> kAttention = {"attention", "attentionBlock", "attentionMerge"};
const std::set<std::string> kAttentionBackward = {"attentionBackward", "attentionBlockBackward"};

/// What is recomputed of attention, as a share of all calls of it.
double attentionAgain(Recompute recompute) { return recompute == Recompute::Attention ? 0.5 : 0; }

/// What of `total` is left when the share `ahead` of it goes on beside `window` of computation.
double exposed(double total, double ahead, double window) {
  return total * (1 - ahead) + std::max(0.0, total * ahead - window);
}

}  // namespace

const RankRuns::Run& RankRuns::largest() const {
  return *std::ranges::max_element(runs, {}, [](const Run& r) { return r.run.memory().total(); });
}

/// Of a rank's step, in seconds.
struct Predictor::Work {
  double forward = 0, inputs = 0, weights = 0;  // of a micro-batch, kernels and collectives
  double compute = 0, layers = 0;               // of all micro-batches
  double transfer = 0, messages = 0;            // of one message between stages, of all
  double gather = 0, reduce = 0;                // whether or not something is computed meanwhile
  double partial = 0;                           // sums of gradients after the last of them
  double gatheredAhead = 0, reducedAhead = 0;   // shares of these
  double update = 0, other = 0;
  double busy() const { return compute + layers; }
};

Predictor::Predictor(TrainingJob job, DeviceRates rates, NetworkModel& network, int ranksPerHost)
    : job_(std::move(job)),
      rates_(std::move(rates)),
      network_(network),
      ranksPerHost_(ranksPerHost) {}

/// Places along pp, with how many ranks each stands for.
std::vector<std::pair<int, int>> Predictor::kindsOfRanks(const TrainingLayout& layout) const {
  const int ranks = layout.mesh[Axis::Pipeline];
  std::vector<std::pair<int, int>> kinds;
  if (ranks <= kStagesRun) {
    for (int i = 0; i < ranks; ++i) kinds.emplace_back(i, 1);
    return kinds;
  }
  // The first holds the most micro-batches, the last one has the logits; of those between them the
  // second one can hold most.
  return {{0, 1}, {1, ranks - 2}, {ranks - 1, 1}};
}

const TrainingMemory& Predictor::held(const TrainingLayout& layout, size_t limit) {
  const std::string key = layout.describe();
  auto found = least_.find(key);
  if (found == least_.end()) {
    found = least_.emplace(key, leastMemory(job_, layout, 0)).first;
    ++dryRuns_;
  }
  if (found->second.total() > limit) return found->second;
  return runs(layout, limit).largest().run.memory();
}

const RankRuns& Predictor::runs(const TrainingLayout& layout, size_t limit) {
  const std::string key = layout.describe();
  const auto kinds = kindsOfRanks(layout);
  RankRuns& found = done_[key];
  while (found.runs.size() < kinds.size()) {
    if (!found.runs.empty() && found.largest().run.memory().total() > limit) break;
    const auto [place, stands] = kinds[found.runs.size()];
    MeshPlace at{};
    at[static_cast<size_t>(Axis::Pipeline)] = place;
    const int rank = rankAt(layout.mesh, at);
    found.runs.push_back({stands, ShortDryRun(job_, layout, rank)});
    ++dryRuns_;
  }
  return found;
}

Predictor::Work Predictor::workOf(const TrainingLayout& layout, const DryRun& run) {
  Work work;
  double attention = 0, attentionBackward = 0;
  for (const auto& [name, count] : run.kernels) {
    const double seconds = rates_.seconds(name, count);
    (kUpdateKernels.contains(name) ? work.update : work.compute) += seconds;
    if (kAttention.contains(name)) attention += seconds;
    if (kAttentionBackward.contains(name)) attentionBackward += seconds;
  }
  const AxisSet data = ShardPolicy().data();
  for (const auto& [axes, counted] : run.collectives) {
    CollectiveCounters rest = counted;
    if (within(axes, kTensorAxes)) {
      work.layers += network_.seconds(layout.mesh, axes, counted);
    } else if (within(axes, kTensorAxes | kTokenAxes)) {
      rest.allReduce = rest.sent = {};
      work.partial += network_.seconds(layout.mesh, axes, {.allReduce = counted.allReduce});
      work.layers += network_.seconds(layout.mesh, axes, rest);
      const double ring = network_.seconds(layout.mesh, axes, {.sent = counted.sent});
      work.layers += ringWaits(ring, layout.mesh[Axis::Context], attention + attentionBackward);
    } else if (within(axes, data)) {
      rest.allGather = {};
      work.reduce += network_.seconds(layout.mesh, axes, rest);
      work.gather += network_.seconds(layout.mesh, axes, {.allGather = counted.allGather});
    } else {
      rest.sent = {};
      work.other += network_.seconds(layout.mesh, axes, rest);
      work.messages = network_.seconds(layout.mesh, axes, {.sent = counted.sent});
      if (counted.sent.calls > 0) work.transfer = work.messages / counted.sent.calls;
    }
  }
  const StoreCounters& store = run.counters;
  const int reductions = layout.zero > 0 ? store.reduceScatter.calls : store.allReduce.calls;
  if (reductions > 0) work.reducedAhead = std::min(1.0, double(store.startedEarly) / reductions);
  if (store.allGather.calls > 0)
    work.gatheredAhead = double(store.prefetched) / store.allGather.calls;
  // Of each product backward has two, one for the inputs and one for the weights. What is computed
  // again belongs to the first of them.
  const double again = attentionAgain(layout.recompute) * attention;
  const bool blocks = layout.recompute == Recompute::Block;
  const double once = (work.busy() - again) / (blocks ? 4 : 3) / layout.microBatches;
  work.forward = work.weights = once;
  work.inputs = (blocks ? 2 : 1) * once + again / layout.microBatches;
  return work;
}

/// What attention in a ring waits for its messages. Each goes beside one of as many steps of
/// attention as there are ranks, but for gradients on the last part of their way home: of 2 n - 1
/// parts of what is sent, one.
double Predictor::ringWaits(double messages, int ranks, double attention) const {
  const double alone = 1.0 / (2 * ranks - 1);
  return exposed(messages, rates_.overlaps ? 1 - alone : 0, attention);
}

namespace {

int64_t unitsOf(double seconds, double unit) {
  return std::max<int64_t>(1, std::llround(seconds / unit));
}

/// How long the schedule takes where every rank is as slow as the slowest.
double scheduleLength(const TrainingLayout& layout, double forward, double inputs, double weights,
                      double transfer) {
  const double unit = std::max({forward, inputs, weights, transfer}) / kTimelineUnits;
  const Costs costs{unitsOf(forward, unit), unitsOf(inputs, unit), unitsOf(weights, unit),
                    transfer > 0 ? unitsOf(transfer, unit) : 0};
  const Schedule schedule = buildSchedule({.kind = layout.schedule,
                                           .ranks = layout.mesh[Axis::Pipeline],
                                           .microBatches = layout.microBatches,
                                           .chunks = layout.chunks});
  return timelineOf(schedule, costs).length().value() * unit;
}

}  // namespace

/// Where ranks share cores, a step takes at least what all of them compute, over the cores; a
/// message, which one of them waits for and another one copies, takes its time of a core.
double Predictor::stretched(double length, const std::vector<Work>& works, const RankRuns& runs,
                            const TrainingLayout& layout) const {
  if (rates_.cores == 0) return length;
  double sum = 0, stages = 0;
  for (size_t i = 0; i < works.size(); ++i) {
    sum += (works[i].busy() + works[i].messages) * runs.runs[i].stands;
    stages += runs.runs[i].stands;
  }
  const int ranks = std::min(layout.mesh.ranks(), ranksPerHost_);
  return std::max(length, sum / stages * ranks / std::min(ranks, rates_.cores));
}

StepSeconds Predictor::secondsOf(const TrainingLayout& layout, const std::vector<Work>& works,
                                 const RankRuns& runs, size_t slowest) const {
  const Work& work = works[slowest];
  double transfer = 0, update = 0, other = 0;
  for (const Work& each : works) {
    transfer = std::max(transfer, each.transfer);
    update = std::max(update, each.update);
    other = std::max(other, each.other);
  }
  const int ranks = std::min(layout.mesh.ranks(), ranksPerHost_);
  const double sharing = rates_.cores == 0 ? 1 : std::max(1.0, double(ranks) / rates_.cores);
  double length = scheduleLength(layout, work.forward, work.inputs, work.weights, transfer);
  length = stretched(std::max(length, work.busy()), works, runs, layout);
  const bool everyPass = layout.zero == 3 && layout.reshard == Reshard::AfterForward;
  const double gatherWindow = everyPass ? work.busy() : work.forward;
  const double reduceWindow = layout.rounds * (work.inputs + work.weights);
  const double ahead = rates_.overlaps ? 1 : 0;
  return {.compute = work.compute,
          .layers = work.layers,
          .wait = length - work.busy(),
          .gather = exposed(work.gather, ahead * work.gatheredAhead, gatherWindow),
          .reduce = exposed(work.reduce, ahead * work.reducedAhead, reduceWindow) + work.partial,
          .update = update * sharing,
          .other = other};
}

Prediction Predictor::predict(const TrainingLayout& layout) {
  const RankRuns& all = runs(layout, std::numeric_limits<size_t>::max());
  std::vector<Work> works;
  std::vector<DryRun> whole;
  for (const RankRuns::Run& run : all.runs) {
    whole.push_back(run.run.whole());
    works.push_back(workOf(layout, whole.back()));
  }
  const auto slowest = std::ranges::max_element(works, {}, [](const Work& w) { return w.busy(); });
  const auto index = static_cast<size_t>(slowest - works.begin());
  const ShortDryRun& largest = all.largest().run;
  Prediction prediction{.layout = layout,
                        .memory = largest.memory(),
                        .memoryRank = largest.rank(),
                        .collectives = whole[index].collectives,
                        .seconds = secondsOf(layout, works, all, index)};
  prediction.tokensPerSecond = job_.tokens() / prediction.seconds.total();
  return prediction;
}

}  // namespace tutti::parallel
