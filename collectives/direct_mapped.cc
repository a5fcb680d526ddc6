#include "collectives/builder.h"
#include "collectives/direct.h"

namespace tutti::collectives {
namespace {

/// `owner`'s buffer as rank `rank` names it.
Port at(int rank, int owner, Buffer buffer, uint32_t chunk) {
  return owner == rank ? local(buffer, chunk) : mapped(owner, buffer, chunk);
}

void readAll(const PlanSpec& spec, Step& step, int rank, uint32_t chunk) {
  for (int q = 0; q < spec.ranks; ++q) step.sources.push_back(at(rank, q, Buffer::In, chunk));
  step.fold = Fold::Canonical;
  step.completes = true;
}

void writeAll(const PlanSpec& spec, Step& step, int rank, uint32_t chunk) {
  for (int k = 0; k < spec.ranks; ++k)
    step.targets.push_back(at(rank, wrap(rank + k, spec.ranks), Buffer::Out, chunk));
}

Step work(const PlanSpec& spec, int rank) {
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
      step.sources = {at(rank, spec.root, Buffer::In, own)};
      writeAll(spec, step, rank, own);
      break;
    case Collective::Reduce:
      readAll(spec, step, rank, own);
      step.targets = {at(rank, spec.root, Buffer::Out, own)};
      break;
    case Collective::Barrier: break;
  }
  return step;
}

bool inOneShot(Collective c) {
  return c == Collective::AllGather || c == Collective::ReduceScatter;
}

}  // namespace

std::optional<PlanSpec> mappedSpec(const SpecRequest& request, Algorithm algorithm) {
  const Collective c = request.collective;
  if (request.ranks == 1 || c == Collective::Barrier) return {};
  if (inOneShot(c) != (algorithm == Algorithm::OneShot)) return {};
  PlanSpec spec = specOf(request, algorithm);
  spec.channels = 1;
  spec.divisions = inOneShot(c) ? 1 : static_cast<uint32_t>(request.ranks);
  spec.messageChunks = 0;
  spec.mapped = {.in = c != Collective::AllGather, .out = c != Collective::ReduceScatter};
  spec.canonicalOrder = plan::isReduction(c);
  return spec;
}

Program mappedProgram(const PlanSpec& spec, int rank) {
  Step tell, hear;
  for (int k = 1; k < spec.ranks; ++k) {
    tell.targets.push_back(signal(wrap(rank + k, spec.ranks)));
    hear.sources.push_back(signal(wrap(rank - k, spec.ranks)));
  }
  Program program;
  program.lanes.push_back({0, {work(spec, rank), std::move(tell), std::move(hear)}});
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
    default: return {1, others, 1};
  }
}

}  // namespace tutti::collectives
