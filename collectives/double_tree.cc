#include "collectives/double_tree.h"

#include <algorithm>

#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

/// One of the two trees over `ranks` ranks, named by rank.
class DoubleTree {
 public:
  DoubleTree(int ranks, int root, int which) : ranks_(ranks), root_(root), which_(which) {}

  int parent(int rank) const { return rankAt(parentPosition(positionOf(rank))); }
  std::vector<int> children(int rank) const {
    const int position = positionOf(rank);
    const int reach = position == 0 ? 2 * ranks_ : position & -position;
    std::vector<int> found;
    if (position != 0 && reach > 1) found.push_back(rankAt(position - reach / 2));
    for (int step = std::bit_floor(static_cast<unsigned>(reach)) / 2; step >= 1; step /= 2) {
      if (position + step >= ranks_) continue;
      found.push_back(rankAt(position + step));
      break;
    }
    return found;
  }
  int root() const { return root_; }

 private:
  /// In order: position p is inside the span of the next higher power of two, if that exists.
  int parentPosition(int p) const {
    const int bit = p & -p;
    const int up = (p ^ bit) | (bit << 1);
    return up < ranks_ ? up : p ^ bit;
  }
  int positionOf(int rank) const {
    const int v = wrap(rank - root_, ranks_);
    if (which_ == 0 || v == 0) return v;
    return ranks_ % 2 == 1 ? ranks_ - v : v % (ranks_ - 1) + 1;
  }
  int rankAt(int position) const {
    int v = position;
    if (which_ == 1 && position != 0) {
      if (ranks_ % 2 == 1)
        v = ranks_ - position;
      else
        v = position == 1 ? ranks_ - 1 : position - 1;
    }
    return wrap(v + root_, ranks_);
  }

  int ranks_, root_, which_;
};

/// Sum of this rank's input and its children's messages; to whom, the caller adds.
Step gather(const std::vector<int>& children, uint32_t chunk) {
  Step step{.sources = {local(Buffer::In, chunk)}};
  for (int child : children) step.sources.push_back(channel(child, chunk));
  if (!children.empty()) step.fold = Fold::Listed;
  return step;
}

void giveChildren(Step& step, const std::vector<int>& children, uint32_t chunk) {
  for (int child : children) step.targets.push_back(channel(child, chunk));
}

/// The lanes of one tree and one division; the division's number is also the channel's.
void addLanes(const PlanSpec& spec, int rank, uint32_t chunk, Program& program) {
  const DoubleTree tree(spec.ranks, spec.root, static_cast<int>(chunk % 2));
  const std::vector<int> children = tree.children(rank);
  const bool reduces = plan::isReduction(spec.collective);
  const bool spreads = spec.collective != Collective::Reduce;
  const int number = static_cast<int>(chunk);
  if (rank == tree.root()) {
    Step step = reduces ? gather(children, chunk) : Step{.sources = {local(Buffer::In, chunk)}};
    step.completes = reduces;
    step.targets.push_back(local(Buffer::Out, chunk));
    if (spreads) giveChildren(step, children, chunk);
    program.lanes.push_back({number, {std::move(step)}});
    return;
  }
  if (reduces) {
    Step up = gather(children, chunk);
    up.targets.push_back(channel(tree.parent(rank), chunk));
    program.lanes.push_back({number, {std::move(up)}});
  }
  if (spreads) {
    Step down{.sources = {channel(tree.parent(rank), chunk)},
              .targets = {local(Buffer::Out, chunk)}};
    giveChildren(down, children, chunk);
    program.lanes.push_back({number, {std::move(down)}});
  }
}

Program barrier(const PlanSpec& spec, int rank) {
  const DoubleTree tree(spec.ranks, spec.root, 0);
  Step up, down;
  for (int child : tree.children(rank)) {
    up.sources.push_back(signal(child));
    down.targets.push_back(signal(child));
  }
  if (rank == tree.root()) {
    up.targets = down.targets;
    return {{{0, {std::move(up)}}}};
  }
  up.targets = {signal(tree.parent(rank))};
  down.sources = up.targets;
  return {{{0, {std::move(up), std::move(down)}}}};
}

std::optional<PlanSpec> makeSpec(const SpecRequest& request) {
  const Collective c = request.collective;
  if (request.protocol != Protocol::Simple) return {};
  if (!isOneOf(c, {Collective::AllReduce, Collective::Broadcast, Collective::Reduce,
                   Collective::Barrier}))
    return {};
  PlanSpec spec = specOf(request, Algorithm::DoubleTree);
  if (request.ranks == 1 || c == Collective::Barrier) return spec;
  // Each tree has channels of its own, an even number in all, because one rank's up may be
  // another tree's down on the same edge.
  spec.channels = (request.channels + 1) / 2 * 2;
  spec.divisions = static_cast<uint32_t>(spec.channels);
  // Both trees are then a chain that adds 0, 1, 2 in the canonical order.
  if (c == Collective::Reduce && request.ranks == 3 && request.root == 2)
    spec.canonicalOrder = true;
  return spec;
}

Program makeProgram(const PlanSpec& spec, int rank) {
  if (spec.ranks == 1) return buildAlone(spec);
  if (spec.collective == Collective::Barrier) return barrier(spec, rank);
  Program program;
  for (uint32_t chunk = 0; chunk < spec.divisions; ++chunk) addLanes(spec, rank, chunk, program);
  return program;
}

/// To whom `rank` sends half a block in one round of both trees, as often as it does.
std::vector<int> receiversOf(const PlanSpec& spec, int rank) {
  std::vector<int> receivers;
  for (int which : {0, 1}) {
    const DoubleTree tree(spec.ranks, spec.root, which);
    if (spec.collective != Collective::Reduce)
      for (int child : tree.children(rank)) receivers.push_back(child);
    if (plan::isReduction(spec.collective) && rank != tree.root())
      receivers.push_back(tree.parent(rank));
  }
  return receivers;
}

Cost cost(const PlanSpec& spec) {
  const bool both =
      spec.collective == Collective::AllReduce || spec.collective == Collective::Barrier;
  Cost cost{(both ? 2 : 1) * ceilLog2(spec.ranks), 0, 0};
  if (spec.collective == Collective::Barrier || spec.ranks == 1) return cost;
  for (int rank = 0; rank < spec.ranks; ++rank) {
    const std::vector<int> receivers = receiversOf(spec, rank);
    cost.blocksSent = std::max(cost.blocksSent, static_cast<double>(receivers.size()) / 2);
    for (int receiver : receivers) {
      const auto times = std::ranges::count(receivers, receiver);
      cost.linkBlocks = std::max(cost.linkBlocks, static_cast<double>(times) / 2);
    }
  }
  return cost;
}

}  // namespace

AlgorithmInfo doubleTree() { return {Algorithm::DoubleTree, makeSpec, makeProgram, cost, unlike}; }

}  // namespace tutti::collectives
