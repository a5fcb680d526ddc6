#include "parallel/planner/planner.h"

#include <algorithm>
#include <optional>

namespace tutti::parallel {

namespace {

// So many members are tried with all schedules; of more only the fastest, these many.
constexpr size_t kFewMembers = 64, kFastest = 12;
constexpr int kTurns = 2;

class Search {
 public:
  Search(Predictor& predictor, const PlanOptions& options)
      : predictor_(predictor), options_(options) {}

  Plan plan() {
    for (const LayoutFamily& family : familiesOf(predictor_.job(), options_.space)) {
      if (!fits(leanest(predictor_.job(), family))) continue;
      for (const TrainingLayout& member : membersOf(predictor_.job(), family)) take(member);
    }
    vary();
    std::ranges::sort(plan_.misfits, {}, [](const Misfit& m) { return m.memory.total(); });
    plan_.dryRuns = predictor_.dryRuns();
    return std::move(plan_);
  }

 private:
  /// Says why not.
  bool fits(const TrainingLayout& least) {
    const TrainingMemory& held =
        predictor_.runs(least, options_.memoryBytes).largest().run.memory();
    if (held.total() <= options_.memoryBytes) return true;
    plan_.misfits.push_back({least, held});
    return false;
  }
  /// As it computes least among those that fit. What is computed again makes no difference to what
  /// the store holds: where that alone is too much, only more rounds help.
  void take(const TrainingLayout& member) {
    int roundsTooFew = 0;
    for (const TrainingLayout& layout : leaner(member)) {
      if (layout.rounds == roundsTooFew) continue;
      const TrainingMemory& held = predictor_.held(layout, options_.memoryBytes);
      if (held.total() <= options_.memoryBytes) return predict(layout);
      if (held.store.total() > options_.memoryBytes) roundsTooFew = layout.rounds;
    }
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
      const size_t all = plan_.fitting.size();
      std::vector<TrainingLayout> members;
      for (size_t i = 0; i < (all <= kFewMembers ? all : std::min(all, kFastest)); ++i)
        members.push_back(plan_.fitting[i].layout);
      for (const TrainingLayout& member : members)
        for (const TrainingLayout& variant : variantsOf(predictor_.job(), options_.space, member))
          take(variant);
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
  const PlanOptions& options_;
  Plan plan_;
};

}  // namespace

Plan planTraining(Predictor& predictor, const PlanOptions& options) {
  require(options.space.devices > 0 && options.space.ranksPerHost > 0, "a plan for ",
          options.space.devices, " devices, ", options.space.ranksPerHost, " on a host");
  return Search(predictor, options).plan();
}

}  // namespace tutti::parallel
