#include "parallel/mesh/mutation.h"

#include <atomic>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

constexpr bool inOrder() {
  for (size_t i = 0; i < kMutationPoints.size(); ++i)
    if (kMutationPoints[i].point != static_cast<MutationPoint>(i)) return false;
  return kMutationPoints.back().point == MutationPoint::RouterTallyPerSequence;  // the last
}
static_assert(inOrder());

/// Relaxed everywhere: ranks are started after a ScopedMutation was made, and have ended before it
/// is destroyed.
struct Setting {
  static constexpr int kNone = -1;

  std::atomic<bool> counting{false};
  std::atomic<int> point{kNone};
  std::atomic<Change> change{};
  std::array<std::array<std::atomic<int64_t>, kPointFormCount>, kMutationPoints.size()> passes{};
};
constinit Setting setting;

}  // namespace

const char* toString(MutationPoint point) {
  return kMutationPoints[static_cast<size_t>(point)].name;
}

const char* toString(PointForm form) {
  switch (form) {
    case PointForm::AllReduce: return "AllReduce";
    case PointForm::ReduceScatter: return "ReduceScatter";
    case PointForm::ReduceScatterV: return "ReduceScatterV";
    case PointForm::AllGather: return "AllGather";
    case PointForm::AllGatherV: return "AllGatherV";
    case PointForm::AllToAll: return "AllToAll";
    case PointForm::AllToAllV: return "AllToAllV";
    case PointForm::Exchange: return "exchange";
    case PointForm::Factor: return "factor";
  }
  return "?";
}

std::optional<Change> passMutationPoint(MutationPoint point, PointForm form) {
  if (!setting.counting.load(std::memory_order_relaxed)) return std::nullopt;
  setting.passes[static_cast<size_t>(point)][static_cast<size_t>(form)].fetch_add(
      1, std::memory_order_relaxed);
  if (setting.point.load(std::memory_order_relaxed) != static_cast<int>(point)) return std::nullopt;
  return setting.change.load(std::memory_order_relaxed);
}

double factor(MutationPoint point, double value, double dropped) {
  const std::optional<Change> change = passMutationPoint(point, PointForm::Factor);
  if (!change) return value;
  return *change == Change::Drop ? dropped : 2 * value;
}

ScopedMutation::ScopedMutation(std::optional<Mutation> mutation) {
  ensure(!setting.counting.exchange(true), "there is a mutation already");
  for (auto& forms : setting.passes)
    for (auto& count : forms) count = 0;
  if (mutation) {
    setting.point = static_cast<int>(mutation->point);
    setting.change = mutation->change;
  }
}

ScopedMutation::~ScopedMutation() {
  setting.point = Setting::kNone;
  setting.counting = false;
}

std::vector<ScopedMutation::Passes> ScopedMutation::passes() const {
  std::vector<Passes> all;
  for (const MutationPointFacts& facts : kMutationPoints)
    for (int form = 0; form < kPointFormCount; ++form)
      if (const int64_t count =
              setting.passes[static_cast<size_t>(facts.point)][static_cast<size_t>(form)];
          count > 0)
        all.push_back({facts.point, static_cast<PointForm>(form), count});
  return all;
}

}  // namespace tutti::parallel
