#include "collectives/recursive.h"

#include <algorithm>

#include "collectives/binomial.h"
#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

/// Blocks `first`, `first + 1`, ... around the ring of blocks as one or two ports' worth.
template <class Visit>
void pieces(const PlanSpec& spec, int first, int count, Visit visit) {
  const int begin = wrap(first, spec.ranks);
  const int head = std::min(count, spec.ranks - begin);
  if (head > 0) visit(static_cast<uint32_t>(begin), static_cast<uint32_t>(head));
  if (count > head) visit(0U, static_cast<uint32_t>(count - head));
}

/// Blocks that one message phase at `distance` moves.
int phaseBlocks(int distance, int ranks) { return std::min(distance, ranks - distance); }

int mostPhaseBlocks(int ranks) {
  int most = 0;
  for (int distance = 1; distance < ranks; distance *= 2)
    most = std::max(most, phaseBlocks(distance, ranks));
  return most;
}

std::vector<Step> allGather(const PlanSpec& spec, int rank) {
  const auto own = static_cast<uint32_t>(rank);
  std::vector<Step> steps;
  steps.push_back({.sources = {local(Buffer::In, 0)},
                   .targets = {local(Buffer::Out, own), channel(wrap(rank - 1, spec.ranks), own)}});
  for (int distance = 1; distance < spec.ranks; distance *= 2) {
    const int count = phaseBlocks(distance, spec.ranks);
    const int to = wrap(rank - distance, spec.ranks);
    const int from = wrap(rank + distance, spec.ranks);
    if (distance > 1)  // the first message left with the copy above
      pieces(spec, rank, count, [&](uint32_t first, uint32_t n) {
        steps.push_back(
            {.sources = {local(Buffer::Out, first, n)}, .targets = {channel(to, first, n)}});
      });
    pieces(spec, rank + distance, count, [&](uint32_t first, uint32_t n) {
      steps.push_back(
          {.sources = {channel(from, first, n)}, .targets = {local(Buffer::Out, first, n)}});
    });
  }
  return steps;
}

/// The widest phase reads the input and leaves sums for blocks rank, rank + 1, ... in scratch, in
/// this order, so that later phases need no pieces.
void scatterFirst(const PlanSpec& spec, int rank, int distance, std::vector<Step>& steps) {
  const int count = spec.ranks - distance;
  const int to = wrap(rank + distance, spec.ranks);
  const int from = wrap(rank - distance, spec.ranks);
  pieces(spec, rank + distance, count, [&](uint32_t first, uint32_t n) {
    steps.push_back({.sources = {local(Buffer::In, first, n)}, .targets = {channel(to, first, n)}});
  });
  uint32_t place = 0;
  pieces(spec, rank, count, [&](uint32_t first, uint32_t n) {
    steps.push_back({.sources = {channel(from, first, n), local(Buffer::In, first, n)},
                     .targets = {local(Buffer::Scratch, place, n)},
                     .fold = Fold::Listed});
    place += n;
  });
  pieces(spec, rank + count, distance - count, [&](uint32_t first, uint32_t n) {
    steps.push_back(
        {.sources = {local(Buffer::In, first, n)}, .targets = {local(Buffer::Scratch, place, n)}});
    place += n;
  });
}

std::vector<Step> reduceScatter(const PlanSpec& spec, int rank) {
  int distance = 1 << (ceilLog2(spec.ranks) - 1);
  std::vector<Step> steps;
  scatterFirst(spec, rank, distance, steps);
  for (distance /= 2; distance >= 1; distance /= 2) {
    const auto n = static_cast<uint32_t>(distance);
    steps.push_back({.sources = {local(Buffer::Scratch, n, n)},
                     .targets = {channel(wrap(rank + distance, spec.ranks), 0, n)}});
    steps.push_back({.sources = {channel(wrap(rank - distance, spec.ranks), 0, n),
                                 local(Buffer::Scratch, 0, n)},
                     .targets = {local(Buffer::Scratch, 0, n)},
                     .fold = Fold::Listed});
  }
  steps.back().targets = {local(Buffer::Out, 0)};
  steps.back().completes = true;
  return steps;
}

std::vector<Step> barrier(const PlanSpec& spec, int rank) {
  std::vector<Step> steps{{.targets = {signal(wrap(rank + 1, spec.ranks))}}};
  for (int distance = 1; distance < spec.ranks; distance *= 2) {
    Step step{.sources = {signal(wrap(rank - distance, spec.ranks))}};
    if (2 * distance < spec.ranks) step.targets = {signal(wrap(rank + 2 * distance, spec.ranks))};
    steps.push_back(std::move(step));
  }
  return steps;
}

std::optional<PlanSpec> makeSpec(const SpecRequest& request) {
  const Collective c = request.collective;
  if (request.protocol != Protocol::Simple) return {};
  if (isOneOf(c, {Collective::Gather, Collective::Scatter, Collective::AllToAll})) return {};
  PlanSpec spec = specOf(request, Algorithm::Recursive);
  if (request.ranks == 1) return spec;
  if (c == Collective::AllReduce) {
    const unsigned largest = std::bit_floor(static_cast<unsigned>(request.ranks));
    spec.divisions = static_cast<uint32_t>(request.channels) * largest;
    spec.messageChunks = largest / 2;
  }
  if (isOneOf(c, {Collective::AllReduce, Collective::Reduce, Collective::Scan}))
    spec.canonicalOrder = true;
  if (c == Collective::Scan) spec.scratchBlocks = scanScratchBlocks(request.ranks);
  if (c == Collective::AllGather || c == Collective::ReduceScatter) {
    spec.channels = 1;  // messages of several blocks need their chunks side by side
    spec.divisions = 1;
    spec.messageChunks = static_cast<uint32_t>(mostPhaseBlocks(request.ranks));
    spec.minSlots = 2;  // a phase's blocks may come in two messages
  }
  if (c == Collective::ReduceScatter && request.ranks > 2) {
    spec.scratchBlocks = 1U << (ceilLog2(request.ranks) - 1);
    spec.unevenSafe = false;  // a place in scratch has several blocks, one after the other
  }
  return spec;
}

Program makeProgram(const PlanSpec& spec, int rank) {
  if (spec.ranks == 1) return buildAlone(spec);
  Program program;
  switch (spec.collective) {
    case Collective::AllReduce:
      for (int c = 0; c < spec.channels; ++c) program.lanes.push_back(groupsLane(spec, rank, c));
      break;
    case Collective::AllGather: program.lanes.push_back({0, allGather(spec, rank)}); break;
    case Collective::ReduceScatter: program.lanes.push_back({0, reduceScatter(spec, rank)}); break;
    case Collective::Scan:
      for (int c = 0; c < spec.channels; ++c) program.lanes.push_back(scanLane(spec, rank, c));
      break;
    case Collective::Barrier: program.lanes.push_back({0, barrier(spec, rank)}); break;
    default: return binomialProgram(spec, rank);
  }
  return program;
}

Cost cost(const PlanSpec& spec) {
  if (spec.ranks == 1) return {};
  switch (spec.collective) {
    case Collective::AllReduce: return groupsCost(spec);
    case Collective::AllGather:
    case Collective::ReduceScatter:
      return {ceilLog2(spec.ranks), spec.ranks - 1.0, 1.0 * mostPhaseBlocks(spec.ranks)};
    case Collective::Scan: return scanCost(spec);
    case Collective::Barrier: return {ceilLog2(spec.ranks), 0, 0};
    default: return binomialCost(spec);
  }
}

/// AllReduce: members of the smallest group trade places, and with them those of all larger groups.
/// Other blocks than those of AllReduce begin at rank 0, so that some messages of Bruck's exchanges
/// are cut in two.
plan::Symmetry symmetry(const PlanSpec& spec) {
  if (spec.collective == Collective::Barrier) return plan::Symmetry::shift(spec.ranks, 1);
  if (spec.collective != Collective::AllReduce) return unlike(spec);
  return plan::Symmetry::flip(spec.ranks, 1, spec.ranks & -spec.ranks);
}

}  // namespace

AlgorithmInfo recursive() { return {Algorithm::Recursive, makeSpec, makeProgram, cost, symmetry}; }

}  // namespace tutti::collectives
