// Hierarchical AllReduce, AllGather and ReduceScatter. What they move has an owner for every piece:
// the blocks of a buffer belong to the ranks, and the block of an AllReduce is cut into pieces for
// the first ranks of every host. Piece k of a host is carried, on every host, by the rank whose
// number is k modulo the host's size.
//
// Who carries and who gives to carriers or gets from them are lanes of their own, so that neither
// waits for the other: a rank that waits for the network still takes what its host has.

#include <algorithm>

#include "collectives/builder.h"
#include "collectives/hierarchical.h"
#include "src/plan/hosts.h"

namespace tutti::collectives {
namespace {

/// One rank's lanes for one of the parts that every block is cut into.
class HierarchicalBuilder {
 public:
  HierarchicalBuilder(const HostPlace& at, uint32_t part)
      : at_(at),
        part_(part),
        cut_(at.spec.collective == Collective::AllReduce ? at.smallestHost() : 0) {}

  /// Sums of the pieces that this rank owns.
  void reduce(int channelNumber, Program& program) const {
    Lane give{channelNumber, {}}, carry{channelNumber, {}};
    for (int host : at_.otherHosts()) reduceFor(host, give, carry);
    reduceFor(at_.host, give, carry);
    if (owns()) carry.steps.push_back(addAcross());
    add(give, program);
    add(carry, program);
  }

  /// What each owner has goes to all ranks. `after`: the step that makes it, if one does.
  void gather(int channelNumber, const std::vector<plan::Dependency>& after,
              Program& program) const {
    Lane carry{channelNumber, {}}, get{channelNumber, {}};
    if (owns()) {
      carry.steps.push_back(giveOwn());
      carry.steps.back().after = after;
    }
    gatherFrom(at_.host, carry, get);
    std::vector<int> others = at_.otherHosts();
    std::ranges::reverse(others);  // everybody sends to the next host first
    for (int host : others) gatherFrom(host, carry, get);
    add(carry, program);
    add(get, program);
  }

 private:
  bool owns() const { return at_.index < piecesOf(at_.host); }
  int piecesOf(int host) const { return cut_ > 0 ? cut_ : at_.sizeOf(host); }
  /// Piece `k` of `host` in the buffer that has all of them.
  uint32_t chunk(int host, int k) const {
    if (cut_ == 0) return chunkOf(at_.spec, static_cast<uint32_t>(at_.rankOf(host, k)), part_);
    const auto hosts = static_cast<uint32_t>(at_.hostCount());
    return (part_ * hosts + static_cast<uint32_t>(host)) * static_cast<uint32_t>(cut_) +
           static_cast<uint32_t>(k);
  }
  uint32_t ownChunk() const { return chunk(at_.host, at_.index); }
  /// This rank's piece where it is alone in a buffer, or that of an AllReduce.
  Port own(Buffer buffer) const { return local(buffer, cut_ > 0 ? ownChunk() : part_); }
  Port mate(int number, uint32_t chunk) const {
    return channel(at_.rankOf(at_.host, number), chunk);
  }

  void reduceFor(int host, Lane& give, Lane& carry) const {
    // One piece for each carrier, then the next: nobody has to wait with another's before it.
    for (int first = 0; first < piecesOf(host); first += at_.size())
      for (int carrier : at_.otherMates())
        if (const int k = first + carrier; k < piecesOf(host))
          give.steps.push_back({.sources = {local(Buffer::In, chunk(host, k))},
                                .targets = {mate(carrier, chunk(host, k))}});
    if (host == at_.host && at_.size() == 1) return;  // its input is all that its host has
    for (int k = at_.index; k < piecesOf(host); k += at_.size()) {
      carry.steps.push_back(addInside(chunk(host, k)));
      carry.steps.back().targets = {
          host == at_.host ? own(Buffer::Out) : channel(at_.rankOf(host, k), chunk(host, k))};
    }
  }

  /// What this host's ranks have of a piece: the others' messages and this one's own.
  Step addInside(uint32_t piece) const {
    Step step{.fold = at_.size() > 1 ? Fold::Canonical : Fold::None};
    for (int number = 0; number < at_.size(); ++number)
      step.sources.push_back(number == at_.index ? local(Buffer::In, piece) : mate(number, piece));
    return step;
  }

  Step addAcross() const {
    const uint32_t piece = ownChunk();
    const Port inside = at_.size() > 1 ? own(Buffer::Out) : local(Buffer::In, piece);
    Step step{.targets = {own(Buffer::Out)}, .fold = Fold::Canonical, .completes = true};
    for (int host = 0; host < at_.hostCount(); ++host)
      step.sources.push_back(host == at_.host ? inside
                                              : channel(at_.rankOf(host, at_.index), piece));
    return step;
  }

  Step giveOwn() const {
    const uint32_t piece = ownChunk();
    Step step{.sources = {own(cut_ > 0 ? Buffer::Out : Buffer::In)}};
    if (cut_ == 0) step.targets.push_back(local(Buffer::Out, piece));
    for (int host : at_.otherHosts())
      step.targets.push_back(channel(at_.rankOf(host, at_.index), piece));
    giveMates(step, piece);
    return step;
  }

  /// In the order of ranks: they share the link that most of it comes by.
  void gatherFrom(int host, Lane& carry, Lane& get) const {
    for (int k = 0; k < piecesOf(host); ++k) {
      const int carrier = k % at_.size();
      if (carrier != at_.index) {
        get.steps.push_back(keep(mate(carrier, chunk(host, k))));
      } else if (host != at_.host) {
        carry.steps.push_back(keep(channel(at_.rankOf(host, k), chunk(host, k))));
        giveMates(carry.steps.back(), chunk(host, k));
      }
    }
  }

  static Step keep(const Port& message) {
    return {.sources = {message}, .targets = {local(Buffer::Out, message.chunk)}};
  }

  void giveMates(Step& step, uint32_t piece) const {
    for (int number : at_.otherMates()) step.targets.push_back(mate(number, piece));
  }

  static void add(Lane& lane, Program& program) {
    if (!lane.steps.empty()) program.lanes.push_back(std::move(lane));
  }

  const HostPlace& at_;
  const uint32_t part_;
  const int cut_;  // how many pieces of the one block belong to each host; 0: all blocks are pieces
};

}  // namespace

Program hostBlocksProgram(const HostPlace& at) {
  const bool reduces = plan::reducesAll(at.spec.collective);
  const bool gathers = at.spec.collective != Collective::ReduceScatter;
  const int both = reduces && gathers ? 2 : 1;
  Program program;
  for (int part = 0; part < at.spec.channels / both; ++part) {
    const HierarchicalBuilder builder(at, static_cast<uint32_t>(part));
    std::vector<plan::Dependency> whole;
    if (reduces) builder.reduce(part * both, program);
    if (reduces && gathers)
      whole = {{static_cast<uint32_t>(program.lanes.size() - 1),
                static_cast<uint32_t>(program.lanes.back().steps.size() - 1)}};
    if (gathers) builder.gather(part * both + both - 1, whole, program);
  }
  return program;
}

Cost hostBlocksCost(const PlanSpec& spec) {
  const HostPlace at(spec, 0);
  const double across = at.hostCount() - 1;
  if (spec.collective == Collective::AllReduce) {
    const double h = at.hostCount(), m = at.smallestHost(), n = at.largestHost();
    return {.steps = 4,
            .blocksSent = (m + n - 2) / m + 2 * across / (h * m),
            .linkBlocks = m == 1 ? 1 : 2 / m,
            .hostBlocks = 2 * across / h,
            .hostSteps = 2};
  }
  Cost cost{.steps = 2, .linkBlocks = 1, .hostBlocks = at.largestHost() * across, .hostSteps = 1};
  for (const std::vector<int>& host : at.hosts) {
    const size_t size = host.size();
    size_t carried = 0;
    for (const std::vector<int>& other : at.hosts) carried += (other.size() + size - 1) / size;
    cost.blocksSent = std::max(cost.blocksSent, across + static_cast<double>(carried * (size - 1)));
    if (size > 1) cost.linkBlocks = std::max(cost.linkBlocks, static_cast<double>(carried));
  }
  if (spec.collective == Collective::ReduceScatter) cost.blocksSent = spec.ranks - 1;
  return cost;
}

}  // namespace tutti::collectives
