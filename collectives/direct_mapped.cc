#include "collectives/builder.h"
#include "collectives/direct.h"

namespace tutti::collectives {
namespace {

void readAll(const PlanSpec& spec, Step& step, int rank, uint32_t chunk) {
  for (int q = 0; q < spec.ranks; ++q) step.sources.push_back(portOf(rank, q, Buffer::In, chunk));
  step.fold = Fold::Canonical;
  step.completes = true;
}

void writeAll(const PlanSpec& spec, Step& step, int rank, uint32_t chunk) {
  for (int k = 0; k < spec.ranks; ++k)
    step.targets.push_back(portOf(rank, wrap(rank + k, spec.ranks), Buffer::Out, chunk));
}

std::vector<Step> allToAll(const PlanSpec& spec, int rank) {
  std::vector<Step> steps;
  for (int k = 0; k < spec.ranks; ++k) {
    const int to = wrap(rank + k, spec.ranks);
    steps.push_back({.sources = {local(Buffer::In, static_cast<uint32_t>(to))},
                     .targets = {portOf(rank, to, Buffer::Out, static_cast<uint32_t>(rank))}});
  }
  return steps;
}

/// Division `rank` of everybody's sums.
std::vector<Step> scan(const PlanSpec& spec, int rank) {
  const auto own = static_cast<uint32_t>(rank);
  std::vector<Step> steps;
  for (int q = 0; q < spec.ranks; ++q) {
    Step step{.sources = {portOf(rank, q, Buffer::In, own)},
              .targets = {portOf(rank, q, Buffer::Out, own)}};
    if (q > 0) {
      step.sources.insert(step.sources.begin(), portOf(rank, q - 1, Buffer::Out, own));
      step.fold = Fold::Listed;
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

std::vector<Step> work(const PlanSpec& spec, int rank) {
  const auto own = static_cast<uint32_t>(rank);  // a division or a block: both have one chunk
  Step step;
  switch (spec.collective) {
    case Collective::AllReduce:
      readAll(spec, step, rank, own);
      writeAll(spec, step, rank, own);
      break;
    case Collective::ReduceScatter:
      readAll(spec, step, rank, own);
      step.targets = {local(Buffer::Out, 0)};
      break;
    case Collective::AllGather:
      step.sources = {local(Buffer::In, 0)};
      writeAll(spec, step, rank, own);
      break;
    case Collective::Broadcast:
      step.sources = {portOf(rank, spec.root, Buffer::In, own)};
      writeAll(spec, step, rank, own);
      break;
    case Collective::Reduce:
      readAll(spec, step, rank, own);
      step.targets = {portOf(rank, spec.root, Buffer::Out, own)};
      break;
    case Collective::Gather:
      step.sources = {local(Buffer::In, 0)};
      step.targets = {portOf(rank, spec.root, Buffer::Out, own)};
      break;
    case Collective::Scatter:
      step.sources = {portOf(rank, spec.root, Buffer::In, own)};
      step.targets = {local(Buffer::Out, 0)};
      break;
    case Collective::AllToAll: return allToAll(spec, rank);
    case Collective::Scan: return scan(spec, rank);
    case Collective::Barrier: return {};
  }
  return {step};
}

/// With blocks for every rank somewhere, a rank works on its own; otherwise on its division.
bool inOneShot(Collective c) { return plan::givesBlocks(c) || plan::getsBlocks(c); }

}  // namespace

std::optional<PlanSpec> mappedSpec(const SpecRequest& request, Algorithm algorithm) {
  const Collective c = request.collective;
  if (request.ranks == 1 || c == Collective::Barrier) return {};
  if (inOneShot(c) != (algorithm == Algorithm::OneShot)) return {};
  PlanSpec spec = specOf(request, algorithm);
  spec.channels = 1;
  spec.divisions = inOneShot(c) ? 1 : static_cast<uint32_t>(request.ranks);
  spec.messageChunks = 0;
  spec.mapped = {
      .in = !isOneOf(c, {Collective::AllGather, Collective::Gather, Collective::AllToAll}),
      .out = !isOneOf(c, {Collective::ReduceScatter, Collective::Scatter})};
  spec.inPlaceSafe = c != Collective::AllToAll;
  spec.canonicalOrder = plan::reducesAll(c) || (c == Collective::Scan && request.ranks <= 3);
  return spec;
}

Program mappedProgram(const PlanSpec& spec, int rank) {
  Step tell, hear;
  for (int k = 1; k < spec.ranks; ++k) {
    tell.targets.push_back(signal(wrap(rank + k, spec.ranks)));
    hear.sources.push_back(signal(wrap(rank - k, spec.ranks)));
  }
  std::vector<Step> steps = work(spec, rank);
  steps.push_back(std::move(tell));
  steps.push_back(std::move(hear));
  Program program;
  program.lanes.push_back({0, std::move(steps)});
  return program;
}

Cost mappedCost(const PlanSpec& spec) {
  const double others = spec.ranks - 1;
  const double ranks = spec.ranks;
  switch (spec.collective) {
    // A rank and a peer exchange a read and a write of one division in each direction.
    case Collective::AllReduce: return {1, 2 * others / ranks, 2 / ranks};
    // The root's buffer is read by each peer, and written by none but itself.
    case Collective::Broadcast:
    case Collective::Reduce: return {1, 1, 2 / ranks};
    case Collective::Scan: return {1, 3 * others / ranks, 3 / ranks};
    case Collective::Gather:
    case Collective::Scatter: return {1, 1, 1};
    default: return {1, others, 1};
  }
}

}  // namespace tutti::collectives
