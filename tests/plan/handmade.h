#pragma once

// Small plans written by hand whose lanes are ordered by `after` alone: no algorithm of the library
// needs that, so the tests of dependencies have these.

#include <vector>

#include "src/plan/plan.h"

namespace tutti::plan::test {

inline PlanSpec handmadeSpec(Collective collective, int ranks) {
  PlanSpec spec;
  spec.collective = collective;
  spec.algorithm = Algorithm::OneShot;
  spec.ranks = ranks;
  spec.canonicalOrder = isReduction(collective);
  spec.messageChunks = ranks > 1 ? 1 : 0;
  return spec;
}

inline Step after(Step step, uint32_t lane, uint32_t number) {
  step.after.push_back({lane, number});
  return step;
}

struct HandmadePlan {
  PlanSpec spec;
  std::vector<Program> programs;
};

/// One rank: two lanes hand over a scratch block, forth within a round and back before the next.
inline HandmadePlan handover() {
  const Step in{.sources = {local(Buffer::In, 0)}, .targets = {local(Buffer::Scratch, 0)}};
  const Step again{.sources = {local(Buffer::In, 0)}, .targets = {local(Buffer::Scratch, 1)}};
  const Step out{.sources = {local(Buffer::Scratch, 0)}, .targets = {local(Buffer::Out, 0)}};
  PlanSpec spec = handmadeSpec(Collective::Broadcast, 1);
  spec.scratchBlocks = 2;
  return {spec, {{{{0, {in, after(again, 1, 0)}}, {0, {after(out, 0, 0)}}}}}};
}

/// Two ranks: one lane of each sends and delivers, the other adds into scratch between the two.
inline HandmadePlan addAside() {
  PlanSpec spec = handmadeSpec(Collective::AllReduce, 2);
  spec.scratchBlocks = 2;
  std::vector<Program> programs;
  for (int rank : {0, 1}) {
    const Step send{.sources = {local(Buffer::In, 0)}, .targets = {channel(1 - rank, 0)}};
    const Step add{.sources = {channel(1 - rank, 0), local(Buffer::In, 0)},
                   .targets = {local(Buffer::Scratch, 0)},
                   .fold = Fold::Listed,
                   .completes = true};
    const Step deliver{.sources = {local(Buffer::Scratch, 0)}, .targets = {local(Buffer::Out, 0)}};
    const Step again{.sources = {local(Buffer::Out, 0)}, .targets = {local(Buffer::Scratch, 1)}};
    programs.push_back({{{0, {send, after(deliver, 1, 0)}}, {0, {add, after(again, 0, 1)}}}});
  }
  return {spec, programs};
}

}  // namespace tutti::plan::test
