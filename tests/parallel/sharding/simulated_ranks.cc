#include "tests/parallel/sharding/simulated_ranks.h"

#include <algorithm>

namespace tutti::parallel {

namespace {

int64_t productOf(const Shape& shape, int begin, int end) {
  int64_t product = 1;
  for (int d = begin; d < end; ++d) product *= shape[d];
  return product;
}

void addLayouts(const std::vector<Axis>& axes, size_t next, int dimensions, const Layout& layout,
                std::vector<Layout>& all) {
  if (next == axes.size()) {
    all.push_back(layout);
    return;
  }
  addLayouts(axes, next + 1, dimensions, layout, all);
  Layout partial = layout;
  partial.partial.insert(axes[next]);
  addLayouts(axes, next + 1, dimensions, partial, all);
  for (size_t d = 0; d < static_cast<size_t>(dimensions); ++d)
    for (int place = 0; place <= layout.dims[d].size(); ++place) {
      Layout split = layout;
      split.dims[d].insert(place, axes[next]);
      addLayouts(axes, next + 1, dimensions, split, all);
    }
}

}  // namespace

std::vector<Layout> allLayouts(const std::vector<Axis>& axes, int dimensions) {
  std::vector<Layout> all;
  addLayouts(axes, 0, dimensions, {}, all);
  return all;
}

Values Values::random(const Shape& shape, std::mt19937& random, int most) {
  Values values{shape, {}};
  std::uniform_int_distribution<int> element(-most, most);
  for (int64_t i = 0; i < shape.count(); ++i) values.elements.push_back(element(random));
  return values;
}

Values Values::part(int dimension, Range range) const {
  Values result{shape, {}};
  result.shape[dimension] = range.count();
  const int64_t inner = productOf(shape, dimension + 1, shape.rank());
  const int64_t row = shape[dimension] * inner;
  for (int64_t outer = 0; outer < productOf(shape, 0, dimension); ++outer)
    result.elements.insert(result.elements.end(),
                           elements.begin() + outer * row + range.begin * inner,
                           elements.begin() + outer * row + range.end * inner);
  return result;
}

Values Values::box(const std::vector<Range>& ranges) const {
  Values result = *this;
  for (size_t d = 0; d < ranges.size(); ++d) result = result.part(static_cast<int>(d), ranges[d]);
  return result;
}

Values Values::joined(const std::vector<Values>& parts, int dimension) {
  Values result{parts[0].shape, {}};
  result.shape[dimension] = 0;
  for (const Values& part : parts) result.shape[dimension] += part.shape[dimension];
  for (int64_t outer = 0; outer < productOf(result.shape, 0, dimension); ++outer)
    for (const Values& part : parts) {
      const int64_t row = productOf(part.shape, dimension, part.shape.rank());
      result.elements.insert(result.elements.end(), part.elements.begin() + outer * row,
                             part.elements.begin() + (outer + 1) * row);
    }
  return result;
}

Values Values::sum(const std::vector<Values>& summands) {
  Values result = summands[0];
  for (size_t s = 1; s < summands.size(); ++s)
    for (size_t i = 0; i < result.elements.size(); ++i)
      result.elements[i] += summands[s].elements.at(i);
  return result;
}

void PrintTo(const Values& values, std::ostream* out) {
  *out << values.shape << ":";
  for (const double element : values.elements) *out << " " << element;
}

SimulatedRanks::SimulatedRanks(const MeshShape& mesh, const Values& whole, const Layout& layout,
                               std::mt19937& random, int most)
    : mesh_(mesh) {
  for (int rank = 0; rank < mesh.ranks(); ++rank)
    parts_.push_back(whole.box(boxOf(whole.shape, layout, mesh, placeOf(mesh, rank))));
  // Of ranks that share a part, each but the first takes something away from the first one's;
  // replicas take the same.
  const unsigned seed = static_cast<unsigned>(random());
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    MeshPlace place = placeOf(mesh, rank), first = place;
    for (size_t axis = 0; axis < kAxisCount; ++axis)
      if (layout.partial.contains(static_cast<Axis>(axis))) first[axis] = 0;
    if (place == first) continue;
    MeshPlace kind = place;  // the same for all replicas
    for (size_t axis = 0; axis < kAxisCount; ++axis)
      if (!layout.axes().contains(static_cast<Axis>(axis))) kind[axis] = 0;
    std::mt19937 own(seed + static_cast<unsigned>(rankAt(mesh, kind)));
    Values summand = Values::random(part(rank).shape, own, most);
    Values& rest = parts_[static_cast<size_t>(rankAt(mesh, first))];
    for (size_t i = 0; i < summand.elements.size(); ++i) rest.elements[i] -= summand.elements[i];
    parts_[static_cast<size_t>(rank)] = std::move(summand);
  }
}

std::vector<Values> SimulatedRanks::along(AxisSet axes, int rank) const {
  std::vector<Values> found;
  const MeshPlace own = placeOf(mesh_, rank);
  for (int other = 0; other < mesh_.ranks(); ++other) {
    const MeshPlace place = placeOf(mesh_, other);
    bool same = true;
    for (size_t axis = 0; axis < kAxisCount; ++axis)
      same &= axes.contains(static_cast<Axis>(axis)) || place[axis] == own[axis];
    if (same) found.push_back(part(other));
  }
  return found;
}

int64_t SimulatedRanks::perform(const RedistributionStep& step) {
  std::vector<Values> after;
  int64_t most = 0;
  const int ranks = mesh_[step.axis];
  for (int rank = 0; rank < mesh_.ranks(); ++rank) {
    const int place = placeOf(mesh_, rank)[static_cast<size_t>(step.axis)];
    const std::vector<Values> group = along({step.axis}, rank);
    const auto ownPart = [&](const Values& all) {
      return all.part(step.to, partOf(all.shape[step.to], ranks, place));
    };
    Values result;
    int64_t sent = 0;
    switch (step.move) {
      case Move::AllReduce:
        result = Values::sum(group);
        sent = 2 * (result.shape.count() - result.shape.count() / ranks);
        break;
      case Move::ReduceScatter:
        result = ownPart(Values::sum(group));
        sent = part(rank).shape.count() - result.shape.count();
        break;
      case Move::AllGather:
        result = Values::joined(group, step.from);
        // In a ring each rank passes on everything but the next one's.
        sent = result.shape.count() - group[static_cast<size_t>((place + 1) % ranks)].shape.count();
        break;
      case Move::AllToAll:
        result = ownPart(Values::joined(group, step.from));
        sent = part(rank).shape.count() - ownPart(part(rank)).shape.count();
        break;
      case Move::Slice: result = ownPart(part(rank)); break;
    }
    after.push_back(std::move(result));
    most = std::max(most, sent);
  }
  parts_ = std::move(after);
  return most;
}

bool SimulatedRanks::hold(const Values& whole, const Layout& layout) const {
  for (int rank = 0; rank < mesh_.ranks(); ++rank) {
    const Values wanted = whole.box(boxOf(whole.shape, layout, mesh_, placeOf(mesh_, rank)));
    for (const Values& summand : along(layout.partial, rank))
      if (summand.shape != wanted.shape) return false;
    if (Values::sum(along(layout.partial, rank)) != wanted) return false;
  }
  return true;
}

}  // namespace tutti::parallel
