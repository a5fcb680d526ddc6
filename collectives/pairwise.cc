#include "collectives/pairwise.h"

#include "collectives/builder.h"

namespace tutti::collectives {
namespace {

int phases(int ranks) { return ranks % 2 == 0 ? ranks - 1 : ranks; }

/// Whom `rank` meets; itself where it pauses.
int partnerOf(int rank, int phase, int ranks) {
  const int table = phases(ranks);
  // The table is odd, so 2 x = phase has one solution.
  if (rank == table) return wrap(phase * ((table + 1) / 2), table);
  const int partner = wrap(phase - rank, table);
  return partner == rank && ranks % 2 == 0 ? table : partner;
}

/// A message is named by its place in the sender's input.
std::vector<Step> allToAll(const PlanSpec& spec, int rank, uint32_t lane) {
  const auto block = [&](int index) { return chunkOf(spec, static_cast<uint32_t>(index), lane); };
  const uint32_t own = block(rank);
  std::vector<Step> steps{
      {.sources = {local(Buffer::In, own)}, .targets = {local(Buffer::Out, own)}}};
  for (int phase = 0; phase < phases(spec.ranks); ++phase) {
    const int partner = partnerOf(rank, phase, spec.ranks);
    if (partner == rank) continue;
    const uint32_t theirs = block(partner);
    steps.push_back(
        {.sources = {local(Buffer::In, theirs)}, .targets = {channel(partner, theirs)}});
    steps.push_back({.sources = {channel(partner, own)}, .targets = {local(Buffer::Out, theirs)}});
  }
  return steps;
}

std::optional<PlanSpec> makeSpec(const SpecRequest& request) {
  if (request.protocol != Protocol::Simple || request.collective != Collective::AllToAll) return {};
  return specOf(request, Algorithm::Pairwise);
}

Program makeProgram(const PlanSpec& spec, int rank) {
  if (spec.ranks == 1) return buildAlone(spec);
  Program program;
  for (int lane = 0; lane < spec.channels; ++lane)
    program.lanes.push_back({lane, allToAll(spec, rank, static_cast<uint32_t>(lane))});
  return program;
}

Cost cost(const PlanSpec& spec) {
  if (spec.ranks == 1) return {};
  return {phases(spec.ranks), spec.ranks - 1.0, 1};
}

}  // namespace

AlgorithmInfo pairwise() { return {Algorithm::Pairwise, makeSpec, makeProgram, cost, unlike}; }

}  // namespace tutti::collectives
