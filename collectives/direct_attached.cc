#include "collectives/builder.h"
#include "collectives/direct.h"

namespace tutti::collectives {
namespace {

Step copy(Port from, uint32_t to) {
  return {.sources = {from}, .targets = {local(Buffer::Out, to)}};
}

/// One rank's steps.
class Steps {
 public:
  Steps(const PlanSpec& spec, int rank)
      : spec_(spec), rank_(rank), own_(static_cast<uint32_t>(rank)) {}

  std::vector<Step> all() && {
    switch (spec_.collective) {
      case Collective::AllReduce: allReduce(); break;
      case Collective::ReduceScatter: reduceScatter(); break;
      case Collective::AllGather: readInputs(0); break;
      case Collective::Broadcast: readRoot(0); break;
      case Collective::Scatter: readRoot(own_); break;
      case Collective::AllToAll: readInputs(own_); break;
      default: break;
    }
    return std::move(steps_);
  }

 private:
  /// The `k`th other rank, so that not all read in the same one first.
  int other(int k) const { return wrap(rank_ + k, spec_.ranks); }

  void tell(int peer) { steps_.push_back({.targets = {signal(peer)}}); }
  void hear(int peer) { steps_.push_back({.sources = {signal(peer)}}); }
  void tellAll() {
    Step& step = steps_.emplace_back();
    for (int k = 1; k < spec_.ranks; ++k) step.targets.push_back(signal(other(k)));
  }
  void hearAll() {
    Step& step = steps_.emplace_back();
    for (int k = 1; k < spec_.ranks; ++k) step.sources.push_back(signal(other(-k)));
  }
  /// The sum of division or block `own_` of everybody's input.
  Step& sum() {
    Step& step = steps_.emplace_back();
    for (int q = 0; q < spec_.ranks; ++q)
      step.sources.push_back(portOf(rank_, q, Buffer::In, own_));
    step.fold = Fold::Canonical;
    step.completes = true;
    return step;
  }
  /// Chunk q of every other rank's output, which has it when it says so.
  void readOutputs() {
    tellAll();
    for (int k = 1; k < spec_.ranks; ++k) {
      const int q = other(k);
      hear(q);
      steps_.push_back(
          copy(mapped(q, Buffer::Out, static_cast<uint32_t>(q)), static_cast<uint32_t>(q)));
    }
  }
  void leaveTogether() {
    tellAll();
    hearAll();
  }

  void allReduce() {
    sum().targets = {local(Buffer::Out, own_)};
    readOutputs();
    leaveTogether();
  }
  void reduceScatter() {
    sum().targets = {local(Buffer::Out, 0)};
    leaveTogether();
  }
  /// Block `chunk` of everybody's input, each to its sender's place.
  void readInputs(uint32_t chunk) {
    for (int k = 0; k < spec_.ranks; ++k)
      steps_.push_back(
          copy(portOf(rank_, other(k), Buffer::In, chunk), static_cast<uint32_t>(other(k))));
    leaveTogether();
  }
  /// Block `chunk` of the root's input, and tells the root.
  void readRoot(uint32_t chunk) {
    steps_.push_back(copy(portOf(rank_, spec_.root, Buffer::In, chunk), 0));
    rank_ == spec_.root ? hearAll() : tell(spec_.root);
  }

  const PlanSpec& spec_;
  const int rank_;
  const uint32_t own_;  // a division or a block: both have one chunk
  std::vector<Step> steps_;
};

/// In the others one rank would make most of the copies alone, where slots share them out between
/// two ranks.
bool isAttachable(Collective c) {
  return isOneOf(c, {Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather,
                     Collective::Broadcast, Collective::Scatter, Collective::AllToAll});
}

}  // namespace

std::optional<PlanSpec> attachedSpec(const SpecRequest& request, Algorithm algorithm) {
  const Collective c = request.collective;
  const bool twice = c == Collective::AllReduce;
  if (request.ranks == 1 || !isAttachable(c)) return {};
  if (twice != (algorithm == Algorithm::TwoShot)) return {};
  PlanSpec spec = specOf(request, algorithm);
  spec.channels = 1;
  spec.divisions = twice ? static_cast<uint32_t>(request.ranks) : 1;
  spec.messageChunks = 0;
  spec.mapped = {.in = true, .out = twice};
  spec.inPlaceSafe = c != Collective::AllToAll;
  spec.unevenSafe &= c != Collective::AllGather;  // other ranks' inputs have other sizes
  spec.canonicalOrder = plan::reducesAll(c);
  return spec;
}

Program attachedProgram(const PlanSpec& spec, int rank) {
  Program program;
  program.lanes.push_back({0, Steps(spec, rank).all()});
  return program;
}

Cost attachedCost(const PlanSpec& spec) {
  const double others = spec.ranks - 1;
  const double ranks = spec.ranks;
  switch (spec.collective) {
    case Collective::AllReduce: return {2, 2 * others / ranks, 2 / ranks};
    case Collective::Broadcast:
    case Collective::Scatter: return {1, 1, 1};
    default: return {1, others, 1};
  }
}

}  // namespace tutti::collectives
