#include "parallel/planner/planner.h"

#include <algorithm>
#include <optional>

namespace tutti::parallel {

namespace {

// So many are varied.
constexpr size_t kFastest = 16;
constexpr int kTurns = 2;

class PlannerSearch {
 public:
  PlannerSearch(Predictor& predictor, const PlannerOptions& options)
      : predictor_(predictor), options_(options) {}

  Plan plan() {
    for (const LayoutFamily& family : familiesOf(predictor_.job(), options_.space))
      unlessRefused([&] {
        if (!fits(leanest(predictor_.job(), family))) return;
        for (const TrainingLayout& member : membersOf(predictor_.job(), family)) take(member);
      });
    require(!plan_.fitting.empty() || !plan_.misfits.empty(), refusal_);
    vary();
    std::ranges::sort(plan_.misfits, {}, [](const Misfit& m) { return m.memory.total(); });
    plan_.dryRuns = predictor_.dryRuns();
    return std::move(plan_);
  }

 private:
  /// Which layouts of those that divide the program takes is its own to say.
  template <class Run>
  void unlessRefused(const Run& run) {
    try {
      run();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::InvalidArgument) throw;
      refusal_ = error.what();
    }
  }
  /// Says why not.
  bool fits(const TrainingLayout& least) {
    const TrainingMemory& held =
        predictor_.runs(least, options_.memoryBytes).largest().run.memory();
    if (held.total() <= options_.memoryBytes) return true;
    plan_.misfits.push_back({least, held});
    return false;
  }
  const TrainingMemory& held(const TrainingLayout& layout) {
    return predictor_.held(layout, options_.memoryBytes);
  }
  bool isWithin(const TrainingLayout& layout) {
    return held(layout).total() <= options_.memoryBytes;
  }
  /// As it computes least among those that fit.
  void take(TrainingLayout layout) {
    for (const int rounds : roundsOf(layout)) {
      layout.rounds = rounds;
      if (const auto recompute = leastComputed(layout)) {
        layout.recompute = *recompute;
        return predict(layout);
      }
    }
  }
  /// What is recomputed makes no difference to what the store holds.
  std::optional<Recompute> leastComputed(TrainingLayout layout) {
    layout.recompute = Recompute::None;
    if (isWithin(layout)) return Recompute::None;
    if (held(layout).store.total() > options_.memoryBytes) return std::nullopt;
    layout.recompute = Recompute::Block;
    if (!isWithin(layout)) return std::nullopt;
    layout.recompute = Recompute::Attention;
    return isWithin(layout) ? Recompute::Attention : Recompute::Block;
  }
  void predict(const TrainingLayout& layout) {
    const auto same = [&](const Prediction& p) { return p.layout == layout; };
    if (std::ranges::none_of(plan_.fitting, same))
      plan_.fitting.push_back(predictor_.predict(layout));
  }
  /// One change at a time of those that are there, and then again.
  void vary() {
    for (int turn = 0; turn < kTurns; ++turn) {
      sort();
      std::vector<TrainingLayout> members;
      for (size_t i = 0; i < std::min(plan_.fitting.size(), kFastest); ++i)
        members.push_back(plan_.fitting[i].layout);
      for (const TrainingLayout& member : members)
        for (const TrainingLayout& variant : variantsOf(predictor_.job(), options_.space, member))
          unlessRefused([&] { take(variant); });
    }
    sort();
  }
  /// Equal ones by what they hold, then as they were found.
  void sort() {
    std::ranges::stable_sort(plan_.fitting, {}, [](const Prediction& p) {
      return std::pair{p.seconds.total(), p.memory.total()};
    });
  }

  Predictor& predictor_;
  const PlannerOptions& options_;
  Plan plan_;
  std::string refusal_;  // the last one
};

}  // namespace

Plan planTraining(Predictor& predictor, const PlannerOptions& options) {
  require(options.space.devices > 0 && options.space.ranksPerHost > 0, "a plan for ",
          options.space.devices, " devices, ", options.space.ranksPerHost, " on a host");
  return PlannerSearch(predictor, options).plan();
}

}  // namespace tutti::parallel
