#include "collectives/builder.h"
#include "collectives/recursive.h"

namespace tutti::collectives {
namespace {

bool needsSum(int rank, int distance, int ranks);

/// In the exchange at `distance` the lower of two partners always gives its group's sum, the upper
/// one where it is of use.
bool gives(int rank, int distance, int ranks) {
  if ((rank & distance) == 0) return rank + distance < ranks;
  return needsSum(rank - distance, distance, ranks);
}

/// After the exchange at `distance`, `rank` has yet to give its group's sum to somebody.
bool needsSum(int rank, int distance, int ranks) {
  for (distance *= 2; distance < ranks; distance *= 2)
    if (gives(rank, distance, ranks)) return true;
  return false;
}

/// What a rank has so far: the sum of its aligned group, and the sum over the group's ranks up to
/// itself. They are one for the last rank of a group.
struct Sums {
  Port whole, own;
  std::vector<Step> steps;

  void add(Port source, Port& to, Port target) {
    steps.push_back({.sources = {source, to}, .targets = {target}, .fold = Fold::Listed});
    to = target;
  }
};

}  // namespace

plan::Lane scanLane(const PlanSpec& spec, int rank, int channelNumber) {
  const auto chunk = static_cast<uint32_t>(channelNumber);
  const Port in = local(Buffer::In, chunk), out = local(Buffer::Out, chunk);
  const Port kept = local(Buffer::Scratch, chunk);
  const Port aside = local(Buffer::Scratch, chunkOf(spec, 1, chunk));
  Sums sums{in, in, {}};
  for (int distance = 1; distance < spec.ranks; distance *= 2) {
    const int partner = rank ^ distance;
    const bool upper = rank > partner;
    const bool last = (rank + 1) % distance == 0;
    if (gives(rank, distance, spec.ranks))
      sums.steps.push_back({.sources = {sums.whole}, .targets = {channel(partner, chunk)}});
    if (!upper) {
      if (needsSum(rank, distance, spec.ranks)) sums.add(channel(partner, chunk), sums.whole, kept);
    } else if (last || !needsSum(rank, distance, spec.ranks)) {
      sums.add(channel(partner, chunk), sums.own, out);
      sums.whole = out;
    } else {
      sums.steps.push_back({.sources = {channel(partner, chunk)}, .targets = {aside}});
      sums.add(aside, sums.whole, kept);
      sums.add(aside, sums.own, out);
    }
    // In place this overwrites the input with its premultiplied value, so it is the last to read
    // it.
    if (rank == 0 && distance == 1) sums.steps.push_back({.sources = {in}, .targets = {out}});
  }
  return {channelNumber, std::move(sums.steps)};
}

uint32_t scanScratchBlocks(int ranks) { return ranks <= 2 ? 0 : ranks <= 6 ? 1 : 2; }

Cost scanCost(const PlanSpec& spec) {
  const int phases = ceilLog2(spec.ranks);
  return {phases, 1.0 * phases, 1};
}

}  // namespace tutti::collectives
