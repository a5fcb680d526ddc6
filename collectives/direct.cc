#include "collectives/direct.h"

#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

struct DirectPlace {
  const PlanSpec& spec;
  int rank;
  uint32_t lane;  // also the channel number

  int ranks() const { return spec.ranks; }
  bool isRoot() const { return rank == spec.root; }
  /// The `k`th other rank, beginning with the next one so that not all send to rank 0 first.
  int other(int k) const { return wrap(rank + k, ranks()); }
  uint32_t block(int index) const { return chunkOf(spec, static_cast<uint32_t>(index), lane); }
  /// Two shot: the division that rank `owner` works on.
  uint32_t part(int owner) const {
    return lane * static_cast<uint32_t>(ranks()) + static_cast<uint32_t>(owner);
  }
  void sendToOthers(Step& step, uint32_t chunk) const {
    for (int k = 1; k < ranks(); ++k) step.targets.push_back(channel(other(k), chunk));
  }
  /// out = the sum of this rank's `in` and a message from every other rank, in rank order.
  Step foldAll(uint32_t in, uint32_t out) const {
    Step step{.targets = {local(Buffer::Out, out)}, .fold = Fold::Canonical, .completes = true};
    for (int q = 0; q < ranks(); ++q)
      step.sources.push_back(q == rank ? local(Buffer::In, in) : channel(q, in));
    return step;
  }
};

Step send(Port source, int to, uint32_t chunk) {
  return {.sources = {source}, .targets = {channel(to, chunk)}};
}
Step receive(int from, uint32_t chunk) {
  return {.sources = {channel(from, chunk)}, .targets = {local(Buffer::Out, chunk)}};
}

/// Every other rank gets its block of this rank's input.
std::vector<Step> sendBlocks(const DirectPlace& at) {
  std::vector<Step> steps;
  for (int k = 1; k < at.ranks(); ++k) {
    const uint32_t chunk = at.block(at.other(k));
    steps.push_back(send(local(Buffer::In, chunk), at.other(k), chunk));
  }
  return steps;
}

std::vector<Step> allReduceOnce(const DirectPlace& at) {
  Step give{.sources = {local(Buffer::In, at.lane)}};
  at.sendToOthers(give, at.lane);
  return {give, at.foldAll(at.lane, at.lane)};
}

std::vector<Step> allGatherOnce(const DirectPlace& at) {
  const uint32_t own = at.block(at.rank);
  Step give{.sources = {local(Buffer::In, at.lane)}, .targets = {local(Buffer::Out, own)}};
  at.sendToOthers(give, own);
  std::vector<Step> steps{give};
  for (int k = 1; k < at.ranks(); ++k)
    steps.push_back(receive(at.other(-k), at.block(at.other(-k))));
  return steps;
}

std::vector<Step> reduceScatterOnce(const DirectPlace& at) {
  std::vector<Step> steps = sendBlocks(at);
  steps.push_back(at.foldAll(at.block(at.rank), at.lane));
  return steps;
}

std::vector<Step> broadcastOnce(const DirectPlace& at) {
  if (!at.isRoot()) return {receive(at.spec.root, at.lane)};
  Step give{.sources = {local(Buffer::In, at.lane)}, .targets = {local(Buffer::Out, at.lane)}};
  at.sendToOthers(give, at.lane);
  return {give};
}

std::vector<Step> reduceOnce(const DirectPlace& at) {
  if (at.isRoot()) return {at.foldAll(at.lane, at.lane)};
  return {send(local(Buffer::In, at.lane), at.spec.root, at.lane)};
}

std::vector<Step> gatherOnce(const DirectPlace& at) {
  const uint32_t own = at.block(at.rank);
  const Port in = local(Buffer::In, at.lane);
  if (!at.isRoot()) return {send(in, at.spec.root, own)};
  std::vector<Step> steps{{.sources = {in}, .targets = {local(Buffer::Out, own)}}};
  for (int k = 1; k < at.ranks(); ++k)
    steps.push_back(receive(at.other(-k), at.block(at.other(-k))));
  return steps;
}

std::vector<Step> scatterOnce(const DirectPlace& at) {
  const uint32_t own = at.block(at.rank);
  const Port out = local(Buffer::Out, at.lane);
  if (!at.isRoot()) return {{.sources = {channel(at.spec.root, own)}, .targets = {out}}};
  std::vector<Step> steps = sendBlocks(at);
  steps.push_back({.sources = {local(Buffer::In, own)}, .targets = {out}});
  return steps;
}

/// Everything leaves before anything arrives: in place, nothing is overwritten too early. A message
/// is named by its place in the sender's input.
std::vector<Step> allToAllOnce(const DirectPlace& at) {
  const uint32_t own = at.block(at.rank);
  std::vector<Step> steps = sendBlocks(at);
  steps.push_back({.sources = {local(Buffer::In, own)}, .targets = {local(Buffer::Out, own)}});
  for (int k = 1; k < at.ranks(); ++k) {
    const int from = at.other(-k);
    steps.push_back(
        {.sources = {channel(from, own)}, .targets = {local(Buffer::Out, at.block(from))}});
  }
  return steps;
}

std::vector<Step> scanOnce(const DirectPlace& at) {
  const Port in = local(Buffer::In, at.lane);
  const Port out = local(Buffer::Out, at.lane);
  Step give{.sources = {in}};
  for (int q = at.rank + 1; q < at.ranks(); ++q) give.targets.push_back(channel(q, at.lane));
  if (at.rank == 0) give.targets.push_back(out);
  Step add{.targets = {out}, .fold = Fold::Canonical};
  for (int q = 0; q < at.rank; ++q) add.sources.push_back(channel(q, at.lane));
  add.sources.push_back(in);
  std::vector<Step> steps;
  if (!give.targets.empty()) steps.push_back(std::move(give));
  if (at.rank > 0) steps.push_back(std::move(add));
  return steps;
}

std::vector<Step> barrierOnce(const DirectPlace& at) {
  Step tell, hear;
  for (int k = 1; k < at.ranks(); ++k) {
    tell.targets.push_back(signal(at.other(k)));
    hear.sources.push_back(signal(at.other(-k)));
  }
  return {tell, hear};
}

/// Two shot, first phase of reductions: every other rank gets its division of this rank's input.
std::vector<Step> scatterInput(const DirectPlace& at) {
  std::vector<Step> steps;
  for (int k = 1; k < at.ranks(); ++k) {
    const uint32_t chunk = at.part(at.other(k));
    steps.push_back(send(local(Buffer::In, chunk), at.other(k), chunk));
  }
  return steps;
}

std::vector<Step> allReduceTwice(const DirectPlace& at) {
  std::vector<Step> steps = scatterInput(at);
  const uint32_t own = at.part(at.rank);
  steps.push_back(at.foldAll(own, own));
  at.sendToOthers(steps.back(), own);
  for (int k = 1; k < at.ranks(); ++k)
    steps.push_back(receive(at.other(-k), at.part(at.other(-k))));
  return steps;
}

std::vector<Step> reduceTwice(const DirectPlace& at) {
  std::vector<Step> steps = scatterInput(at);
  const uint32_t own = at.part(at.rank);
  steps.push_back(at.foldAll(own, own));
  if (!at.isRoot()) {
    steps.back().targets = {channel(at.spec.root, own)};
    return steps;
  }
  for (int k = 1; k < at.ranks(); ++k)
    steps.push_back(receive(at.other(-k), at.part(at.other(-k))));
  return steps;
}

std::vector<Step> broadcastTwiceRoot(const DirectPlace& at) {
  std::vector<Step> steps;
  for (int k = 1; k < at.ranks(); ++k) {
    const uint32_t chunk = at.part(at.other(k));
    steps.push_back(send(local(Buffer::In, chunk), at.other(k), chunk));
    steps.back().targets.push_back(local(Buffer::Out, chunk));
  }
  const uint32_t own = at.part(at.rank);
  steps.push_back({.sources = {local(Buffer::In, own)}, .targets = {local(Buffer::Out, own)}});
  at.sendToOthers(steps.back(), own);
  return steps;
}

std::vector<Step> broadcastTwice(const DirectPlace& at) {
  if (at.isRoot()) return broadcastTwiceRoot(at);
  const uint32_t own = at.part(at.rank);
  std::vector<Step> steps{receive(at.spec.root, own)};
  for (int k = 1; k < at.ranks(); ++k)
    if (at.other(k) != at.spec.root) steps.back().targets.push_back(channel(at.other(k), own));
  for (int k = 1; k < at.ranks(); ++k)
    steps.push_back(receive(at.other(-k), at.part(at.other(-k))));
  return steps;
}

std::vector<Step> stepsOnce(const DirectPlace& at) {
  switch (at.spec.collective) {
    case Collective::AllReduce: return allReduceOnce(at);
    case Collective::AllGather: return allGatherOnce(at);
    case Collective::ReduceScatter: return reduceScatterOnce(at);
    case Collective::Broadcast: return broadcastOnce(at);
    case Collective::Reduce: return reduceOnce(at);
    case Collective::Gather: return gatherOnce(at);
    case Collective::Scatter: return scatterOnce(at);
    case Collective::AllToAll: return allToAllOnce(at);
    case Collective::Scan: return scanOnce(at);
    case Collective::Barrier: return barrierOnce(at);
  }
  return {};
}

std::vector<Step> stepsTwice(const DirectPlace& at) {
  switch (at.spec.collective) {
    case Collective::AllReduce: return allReduceTwice(at);
    case Collective::Broadcast: return broadcastTwice(at);
    case Collective::Reduce: return reduceTwice(at);
    default: return {};
  }
}

std::optional<PlanSpec> specOnce(const SpecRequest& request) {
  if (request.protocol == Protocol::Mapped) return mappedSpec(request, Algorithm::OneShot);
  if (request.protocol == Protocol::Attached) return attachedSpec(request, Algorithm::OneShot);
  PlanSpec spec = specOf(request, Algorithm::OneShot);
  spec.canonicalOrder = plan::isReduction(request.collective);
  return spec;
}

std::optional<PlanSpec> specTwice(const SpecRequest& request) {
  if (request.protocol == Protocol::Mapped) return mappedSpec(request, Algorithm::TwoShot);
  if (request.protocol == Protocol::Attached) return attachedSpec(request, Algorithm::TwoShot);
  const Collective c = request.collective;
  if (!isOneOf(c, {Collective::AllReduce, Collective::Broadcast, Collective::Reduce})) return {};
  PlanSpec spec = specOf(request, Algorithm::TwoShot);
  spec.canonicalOrder = plan::isReduction(c);
  if (request.ranks == 1) return spec;
  spec.divisions = static_cast<uint32_t>(request.channels * request.ranks);
  // A whole division is sent while the operand sent before it may still wait to be folded.
  spec.minSlots = 2;
  return spec;
}

Program buildLanes(const PlanSpec& spec, int rank,
                   std::vector<Step> (*stepsOf)(const DirectPlace&)) {
  if (spec.ranks == 1) return buildAlone(spec);
  if (spec.protocol == Protocol::Mapped) return mappedProgram(spec, rank);
  if (spec.protocol == Protocol::Attached) return attachedProgram(spec, rank);
  Program program;
  for (int lane = 0; lane < spec.channels; ++lane)
    program.lanes.push_back({lane, stepsOf({spec, rank, static_cast<uint32_t>(lane)})});
  return program;
}

Cost costOnce(const PlanSpec& spec) {
  if (spec.ranks == 1) return {};
  if (spec.protocol == Protocol::Mapped) return mappedCost(spec);
  if (spec.protocol == Protocol::Attached) return attachedCost(spec);
  if (spec.collective == Collective::Barrier) return {1, 0, 0};
  return {1, plan::onlyRootGets(spec.collective) ? 1.0 : spec.ranks - 1.0, 1};
}

Cost costTwice(const PlanSpec& spec) {
  if (spec.ranks == 1) return {};
  if (spec.protocol == Protocol::Mapped) return mappedCost(spec);
  if (spec.protocol == Protocol::Attached) return attachedCost(spec);
  const double link = 2.0 / spec.ranks;
  // With two ranks nobody is left to pass a division on to.
  const int steps = spec.collective == Collective::Broadcast && spec.ranks == 2 ? 1 : 2;
  return {steps, spec.collective == Collective::Reduce ? 1.0 : link * (spec.ranks - 1), link};
}

plan::Symmetry symmetryOnce(const PlanSpec& spec) {
  const bool alike = spec.protocol == Protocol::Simple && !hasRoot(spec.collective) &&
                     spec.collective != Collective::Scan;
  return alike ? plan::Symmetry::shift(spec.ranks, 1) : unlike(spec);
}

plan::Symmetry symmetryTwice(const PlanSpec& spec) {
  const bool alike = spec.protocol == Protocol::Simple && spec.collective == Collective::AllReduce;
  return alike ? plan::Symmetry::shift(spec.ranks, 1) : unlike(spec);
}

}  // namespace

AlgorithmInfo oneShot() {
  return {Algorithm::OneShot, specOnce,
          [](const PlanSpec& spec, int rank) { return buildLanes(spec, rank, stepsOnce); },
          costOnce, symmetryOnce};
}

AlgorithmInfo twoShot() {
  return {Algorithm::TwoShot, specTwice,
          [](const PlanSpec& spec, int rank) { return buildLanes(spec, rank, stepsTwice); },
          costTwice, symmetryTwice};
}

}  // namespace tutti::collectives
