#include "collectives/ring.h"

#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

/// One rank's view of the ring on one channel.
struct RingPosition {
  const PlanSpec& spec;
  int rank;
  uint32_t lane;  // also the channel number

  int ranks() const { return spec.ranks; }
  Port previous(uint32_t chunk) const { return channel(wrap(rank - 1, ranks()), chunk); }
  Port next(uint32_t chunk) const { return channel(wrap(rank + 1, ranks()), chunk); }
  /// Division `index` of this channel, `index` taken around the ring.
  uint32_t division(int index) const {
    return lane * static_cast<uint32_t>(ranks()) + static_cast<uint32_t>(wrap(index, ranks()));
  }
  /// This channel's division of block `index`, `index` taken around the ring.
  uint32_t block(int index) const {
    return chunkOf(spec, static_cast<uint32_t>(wrap(index, ranks())), lane);
  }
};

Step addAndPass(const RingPosition& at, uint32_t chunk) {
  return {.sources = {at.previous(chunk), local(Buffer::In, chunk)},
          .targets = {at.next(chunk)},
          .fold = Fold::Listed};
}

Step finish(const RingPosition& at, uint32_t chunk, uint32_t out) {
  return {.sources = {at.previous(chunk), local(Buffer::In, chunk)},
          .targets = {local(Buffer::Out, out)},
          .fold = Fold::Listed,
          .completes = true};
}

/// What arrives is kept, and passed on except by the last rank that needs it.
Step keep(const RingPosition& at, uint32_t chunk, bool pass) {
  Step step{.sources = {at.previous(chunk)}, .targets = {local(Buffer::Out, chunk)}};
  if (pass) step.targets.push_back(at.next(chunk));
  return step;
}

std::vector<Step> allReduce(const RingPosition& at) {
  const int ranks = at.ranks();
  std::vector<Step> steps;
  steps.push_back({.sources = {local(Buffer::In, at.division(at.rank))},
                   .targets = {at.next(at.division(at.rank))}});
  for (int k = 1; k < ranks - 1; ++k) steps.push_back(addAndPass(at, at.division(at.rank - k)));
  const uint32_t whole = at.division(at.rank + 1);
  steps.push_back(finish(at, whole, whole));
  steps.back().targets.push_back(at.next(whole));
  for (int k = 0; k < ranks - 1; ++k)
    steps.push_back(keep(at, at.division(at.rank - k), k < ranks - 2));
  return steps;
}

std::vector<Step> allGather(const RingPosition& at) {
  std::vector<Step> steps;
  const uint32_t own = at.block(at.rank);
  steps.push_back({.sources = {local(Buffer::In, at.lane)},
                   .targets = {local(Buffer::Out, own), at.next(own)}});
  for (int k = 1; k < at.ranks(); ++k)
    steps.push_back(keep(at, at.block(at.rank - k), k < at.ranks() - 1));
  return steps;
}

std::vector<Step> reduceScatter(const RingPosition& at) {
  std::vector<Step> steps;
  const uint32_t first = at.block(at.rank - 1);
  steps.push_back({.sources = {local(Buffer::In, first)}, .targets = {at.next(first)}});
  for (int k = 2; k < at.ranks(); ++k) steps.push_back(addAndPass(at, at.block(at.rank - k)));
  steps.push_back(finish(at, at.block(at.rank), at.lane));
  return steps;
}

std::vector<Step> broadcast(const RingPosition& at) {
  const int distance = wrap(at.rank - at.spec.root, at.ranks());
  if (distance > 0) return {keep(at, at.lane, distance < at.ranks() - 1)};
  return {{.sources = {local(Buffer::In, at.lane)},
           .targets = {local(Buffer::Out, at.lane), at.next(at.lane)}}};
}

std::vector<Step> reduce(const RingPosition& at) {
  const int distance = wrap(at.rank - at.spec.root, at.ranks());
  if (distance == 0) return {finish(at, at.lane, at.lane)};
  if (distance > 1) return {addAndPass(at, at.lane)};
  return {{.sources = {local(Buffer::In, at.lane)}, .targets = {at.next(at.lane)}}};
}

/// The sum so far comes along the chain 0, 1, 2, ..., and goes on with this rank's input.
std::vector<Step> scan(const RingPosition& at) {
  Step step{.sources = {local(Buffer::In, at.lane)}, .targets = {local(Buffer::Out, at.lane)}};
  if (at.rank > 0) {
    step.sources.insert(step.sources.begin(), at.previous(at.lane));
    step.fold = Fold::Listed;
  }
  if (at.rank < at.ranks() - 1) step.targets.push_back(at.next(at.lane));
  return {step};
}

std::vector<Step> stepsOf(const RingPosition& at) {
  switch (at.spec.collective) {
    case Collective::AllReduce: return allReduce(at);
    case Collective::AllGather: return allGather(at);
    case Collective::ReduceScatter: return reduceScatter(at);
    case Collective::Broadcast: return broadcast(at);
    case Collective::Reduce: return reduce(at);
    case Collective::Scan: return scan(at);
    default: return {};
  }
}

std::optional<PlanSpec> makeSpec(const SpecRequest& request) {
  const Collective c = request.collective;
  const bool chain = isOneOf(c, {Collective::Broadcast, Collective::Reduce, Collective::Scan});
  const bool around =
      isOneOf(c, {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter});
  if (request.protocol != Protocol::Simple || !(chain || around)) return {};
  PlanSpec spec = specOf(request, Algorithm::Ring);
  if (request.ranks == 1) return spec;
  if (c == Collective::AllReduce)
    spec.divisions = static_cast<uint32_t>(request.channels * request.ranks);
  // Everybody sends before anybody receives; with one slot all would wait for the next to do so.
  spec.minSlots = chain ? 1 : 2;
  // A chain 0, 1, 2 adds in the canonical order by accident of its length.
  const bool from0To2 = c == Collective::Scan || (c == Collective::Reduce && request.root == 2);
  if (request.ranks == 3 && from0To2) spec.canonicalOrder = true;
  return spec;
}

Program makeProgram(const PlanSpec& spec, int rank) {
  if (spec.ranks == 1) return buildAlone(spec);
  Program program;
  for (int lane = 0; lane < spec.channels; ++lane)
    program.lanes.push_back({lane, stepsOf({spec, rank, static_cast<uint32_t>(lane)})});
  return program;
}

Cost cost(const PlanSpec& spec) {
  const int others = spec.ranks - 1;
  switch (spec.collective) {
    case Collective::AllReduce: {
      const double blocks = 2.0 * others / spec.ranks;
      return {2 * others, blocks, blocks};
    }
    case Collective::AllGather:
    case Collective::ReduceScatter: return {others, 1.0 * others, 1.0 * others};
    default: return {others, others > 0 ? 1.0 : 0.0, others > 0 ? 1.0 : 0.0};
  }
}

/// All the same, except along a chain.
plan::Symmetry symmetry(const PlanSpec& spec) {
  const bool around = isOneOf(
      spec.collective, {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter});
  return around ? plan::Symmetry::shift(spec.ranks, 1) : unlike(spec);
}

}  // namespace

AlgorithmInfo ring() { return {Algorithm::Ring, makeSpec, makeProgram, cost, symmetry}; }

}  // namespace tutti::collectives
