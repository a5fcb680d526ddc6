#include "parallel/sharding/redistribution.h"

#include <algorithm>
#include <map>
#include <set>

namespace tutti::parallel {

namespace {

/// What a way is chosen by.
struct RedistributionCost {
  int64_t sent = 0;
  int steps = 0;
  auto operator<=>(const RedistributionCost&) const = default;
};

/// Elements beyond which the sums of a search could overflow.
constexpr int64_t kMostElements = int64_t{1} << 53;

AxisList& dimension(Layout& layout, int d) { return layout.dims[static_cast<size_t>(d)]; }
const AxisList& dimension(const Layout& layout, int d) {
  return layout.dims[static_cast<size_t>(d)];
}

int commonLength(const AxisList& a, const AxisList& b) {
  return static_cast<int>(std::ranges::mismatch(a, b).in1 - a.begin());
}

/// The axes of both layouts without those that lie alike: partial in both, or in the same place of
/// one dimension behind such ones alone.
AxisSet movable(const Layout& from, const Layout& to, int dimensions) {
  AxisSet axes;
  const auto add = [&](const AxisList& list, int place) {
    for (; place < list.size(); ++place) axes.insert(list[place]);
  };
  for (int d = 0; d < dimensions; ++d) {
    const AxisList &has = dimension(from, d), &wants = dimension(to, d);
    const int same = commonLength(has, wants);
    add(has, same);
    add(wants, same);
  }
  for (int i = 0; i < kAxisCount; ++i) {
    const auto axis = static_cast<Axis>(i);
    if (from.partial.contains(axis) && !to.partial.contains(axis)) axes.insert(axis);
  }
  return axes;
}

/// Dijkstra's search over layouts.
class RedistributionSearch {
 public:
  RedistributionSearch(const Shape& global, const MeshShape& mesh, AxisSet axes)
      : global_(global), mesh_(mesh), axes_(axes) {}

  std::vector<RedistributionStep> find(const Layout& from, const Layout& to) {
    const auto later = [](const Node& a, const Node& b) {
      return a.cost != b.cost ? a.cost < b.cost : a.layout < b.layout;
    };
    std::set<Node, decltype(later)> open{{{}, from}};
    arrivals_[from] = {};
    while (!open.empty()) {
      const Node now = *open.begin();
      open.erase(open.begin());
      if (now.layout == to) return stepsTo(to, now.cost.steps);
      for (const RedistributionStep& step : stepsFrom(now.layout)) {
        const RedistributionCost cost{now.cost.sent + step.sent, now.cost.steps + 1};
        const auto [at, isNew] = arrivals_.try_emplace(step.after, Arrival{cost, step});
        if (!isNew) {
          if (at->second.cost <= cost) continue;
          open.erase({at->second.cost, step.after});
          at->second = {cost, step};
        }
        open.insert({cost, step.after});
      }
    }
    fail(ErrorCode::Internal, "no way leads from ", from.describe(global_.rank()), " to ",
         to.describe(global_.rank()));
  }

 private:
  struct Node {
    RedistributionCost cost;
    Layout layout;
  };
  struct Arrival {
    RedistributionCost cost;
    RedistributionStep step;  // the last one
  };

  std::vector<RedistributionStep> stepsTo(const Layout& to, int count) const {
    std::vector<RedistributionStep> steps(static_cast<size_t>(count));
    const Layout* layout = &to;
    for (size_t i = steps.size(); i-- > 0; layout = &steps[i].before)
      steps[i] = arrivals_.at(*layout).step;
    return steps;
  }

  const std::vector<RedistributionStep>& stepsFrom(const Layout& now) {
    steps_.clear();
    AxisSet idle = axes_;  // those that are replicated
    for (int d = 0; d < global_.rank(); ++d) {
      const AxisList& list = dimension(now, d);
      for (const Axis axis : list) idle.remove(axis);
      if (!list.empty() && axes_.contains(list.innermost())) addLosses(now, d);
    }
    for (int i = 0; i < kAxisCount; ++i) {
      const auto axis = static_cast<Axis>(i);
      if (!axes_.contains(axis)) continue;
      if (now.partial.contains(axis))
        addSums(now, axis);
      else if (idle.contains(axis))
        for (int d = 0; d < global_.rank(); ++d) add(Move::Slice, axis, -1, d, now, now);
    }
    return steps_;
  }

  void addLosses(const Layout& now, int d) {
    const Axis axis = dimension(now, d).innermost();
    Layout after = now;
    dimension(after, d).removeInnermost();
    add(Move::AllGather, axis, d, -1, now, after);
    for (int to = 0; to < global_.rank(); ++to)
      if (to != d) add(Move::AllToAll, axis, d, to, now, after);
  }

  void addSums(const Layout& now, Axis axis) {
    Layout after = now;
    after.partial.remove(axis);
    add(Move::AllReduce, axis, -1, -1, now, after);
    for (int d = 0; d < global_.rank(); ++d) add(Move::ReduceScatter, axis, -1, d, now, after);
  }

  /// `after` does not split dimension `to` by the axis yet.
  void add(Move move, Axis axis, int from, int to, const Layout& before, Layout after) {
    if (to >= 0) {
      if (dimension(after, to).size() == AxisList::kMostAxes) return;
      dimension(after, to).append(axis);
    }
    RedistributionStep step{move, axis, from, to, before, after, 0};
    step.sent = sentIn(step);
    steps_.push_back(step);
  }

  Shape largest(const Layout& layout) const {
    Shape shape = global_;
    for (int d = 0; d < shape.rank(); ++d)
      for (const Axis axis : dimension(layout, d))
        shape[d] = shape[d] / mesh_[axis] + (shape[d] % mesh_[axis] > 0 ? 1 : 0);
    return shape;
  }

  /// Of the ranks that differ along the step's axis alone and hold most, the one that sends most.
  int64_t sentIn(const RedistributionStep& step) const {
    const int ranks = mesh_[step.axis];
    switch (step.move) {
      case Move::AllReduce: {
        const int64_t whole = largest(step.before).count();
        return 2 * (whole - whole / ranks);
      }
      // One whose own part is the smallest, or in a ring one whose next rank's is.
      case Move::ReduceScatter: return allButPart(largest(step.before), step.to, ranks, ranks - 1);
      case Move::AllGather: return allButPart(largest(step.after), step.from, ranks, ranks - 1);
      case Move::AllToAll: return sentInAllToAll(step, ranks);
      case Move::Slice: return 0;
    }
    return 0;
  }

  /// What a rank has is the larger, and what it keeps of that is the smaller, the earlier it is: it
  /// is the last rank that sends most, or the last of those that have one more.
  int64_t sentInAllToAll(const RedistributionStep& step, int ranks) const {
    const Shape gathered = largest(step.after);
    const auto sentBy = [&](int rank) {
      Shape own = largest(step.before);
      own[step.from] = partOf(gathered[step.from], ranks, rank).count();
      return allButPart(own, step.to, ranks, rank);
    };
    const auto larger = static_cast<int>(gathered[step.from] % ranks);
    return std::max(sentBy(ranks - 1), sentBy(std::max(larger - 1, 0)));
  }

  static int64_t allButPart(Shape shape, int cut, int ranks, int rank) {
    const int64_t whole = shape.count();
    shape[cut] = partOf(shape[cut], ranks, rank).count();
    return whole - shape.count();
  }

  const Shape& global_;
  const MeshShape& mesh_;
  const AxisSet axes_;
  std::map<Layout, Arrival> arrivals_;
  std::vector<RedistributionStep> steps_;
};

}  // namespace

const char* toString(Move move) {
  switch (move) {
    case Move::AllReduce: return "AllReduce";
    case Move::ReduceScatter: return "ReduceScatter";
    case Move::AllGather: return "AllGather";
    case Move::AllToAll: return "AllToAll";
    case Move::Slice: return "slice";
  }
  return "unknown move";
}

std::vector<RedistributionStep> redistribution(const Shape& global, const MeshShape& mesh,
                                               const Layout& from, const Layout& to) {
  const int dimensions = global.rank();
  requireSound(from, dimensions);
  requireSound(to, dimensions);
  require(global.count() <= kMostElements, "a tensor of ", global, " has more than 2^53 elements");
  for (int i = 0; i < kAxisCount; ++i) {
    const auto axis = static_cast<Axis>(i);
    if (to.partial.contains(axis) && !from.partial.contains(axis))
      fail(ErrorCode::InvalidArgument, "a tensor that lies as ", from.describe(dimensions),
           " has no summands over ", toString(axis), " to lie as ", to.describe(dimensions));
  }
  return RedistributionSearch(global, mesh, movable(from, to, dimensions)).find(from, to);
}

int64_t elementsSent(const std::vector<RedistributionStep>& steps) {
  int64_t sent = 0;
  for (const RedistributionStep& step : steps) sent += step.sent;
  return sent;
}

Layout gradientLayout(const Layout& layout) {
  Layout result = layout;
  result.partial = {};
  return result;
}

}  // namespace tutti::parallel
