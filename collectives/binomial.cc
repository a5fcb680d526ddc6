#include "collectives/binomial.h"

#include <algorithm>

#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

/// Who speaks for the ranks from `first` on, `size` of them.
int speaker(int first, int size, int root) {
  return root >= first && root < first + size ? root : first;
}

Step broadcastStep(const TreePlace& place, uint32_t chunk) {
  Step step{.sources = {place.parent < 0 ? local(Buffer::In, chunk) : channel(place.parent, chunk)},
            .targets = {local(Buffer::Out, chunk)}};
  for (auto child = place.children.rbegin(); child != place.children.rend(); ++child)
    step.targets.push_back(channel(*child, chunk));
  return step;
}

Step reduceStep(const TreePlace& place, uint32_t chunk) {
  Step step{.sources = {local(Buffer::In, chunk)}};
  for (int child : place.children) step.sources.push_back(channel(child, chunk));
  if (!place.children.empty()) step.fold = Fold::Listed;
  step.completes = place.parent < 0;
  step.targets = {place.parent < 0 ? local(Buffer::Out, chunk) : channel(place.parent, chunk)};
  return step;
}

}  // namespace

/// The nearest group's speaker is the first child.
TreePlace binomialPlace(int rank, int ranks, int root) {
  TreePlace place;
  for (int size = 1; size < ranks; size *= 2) {
    const int pair = rank / (2 * size) * (2 * size);
    const int sibling = rank / size * size == pair ? pair + size : pair;
    if (sibling >= ranks) continue;
    const int above = speaker(pair, 2 * size, root);
    if (above != rank) {
      place.parent = above;
      break;
    }
    place.children.push_back(speaker(sibling, size, root));
  }
  return place;
}

Program treeProgram(const PlanSpec& spec, const TreePlace& place) {
  Program program;
  for (int lane = 0; lane < spec.channels; ++lane) {
    const auto chunk = static_cast<uint32_t>(lane);
    program.lanes.push_back(
        {lane,
         {spec.collective == Collective::Broadcast ? broadcastStep(place, chunk)
                                                   : reduceStep(place, chunk)}});
  }
  return program;
}

Cost treeCost(const PlanSpec& spec, const std::vector<TreePlace>& places) {
  Cost cost{.blocksSent = 1, .linkBlocks = 1};
  for (const TreePlace& from : places) {
    int hops = 0;
    for (int up = from.parent; up >= 0; up = places[static_cast<size_t>(up)].parent) ++hops;
    cost.steps = std::max(cost.steps, hops);
    if (spec.collective == Collective::Broadcast)
      cost.blocksSent = std::max(cost.blocksSent, static_cast<double>(from.children.size()));
  }
  return cost;
}

Program binomialProgram(const PlanSpec& spec, int rank) {
  return treeProgram(spec, binomialPlace(rank, spec.ranks, spec.root));
}

Cost binomialCost(const PlanSpec& spec) {
  std::vector<TreePlace> places;
  for (int rank = 0; rank < spec.ranks; ++rank)
    places.push_back(binomialPlace(rank, spec.ranks, spec.root));
  return treeCost(spec, places);
}

}  // namespace tutti::collectives
