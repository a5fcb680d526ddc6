#pragma once

// Calls that several tests of the CUDA executor make.

#include <stdexcept>

#include "src/base/check.h"
#include "tests/executor/kernel/device_ranks.h"
#include "tests/support/sanitized.h"

namespace tutti::tests {

inline plan::PlanSpec planOf(plan::Algorithm algorithm, plan::Collective collective,
                             plan::Protocol protocol, int ranks) {
  for (const plan::PlanSpec& spec : allPlans(ranks, 1))
    if (spec.algorithm == algorithm && spec.collective == collective && spec.protocol == protocol)
      return spec;
  throw std::runtime_error("there is no such plan");
}

/// AllReduce by a ring.
inline Call ringCall(int ranks, uint64_t count) {
  return {.spec = planOf(plan::Algorithm::Ring, plan::Collective::AllReduce, plan::Protocol::Simple,
                         ranks),
          .count = count};
}
/// AllReduce in which every rank reads from all others' buffers, and writes to them.
inline Call mappedCall(int ranks, uint64_t count) {
  return {.spec = planOf(plan::Algorithm::TwoShot, plan::Collective::AllReduce,
                         plan::Protocol::Mapped, ranks),
          .count = count};
}

/// Rank 0's block goes to rank 1, which sends back, on one lane, what it has received on another:
/// it is rank 0's block 1 then.
inline plan::Program echoProgram(int rank) {
  using plan::Buffer;
  const plan::Port received = plan::channel(1 - rank, 0), sent = plan::channel(1 - rank, 0);
  const plan::Port first = plan::local(Buffer::Out, 0), second = plan::local(Buffer::Out, 1);
  if (rank == 0)
    return {
        {{.channel = 0, .steps = {{.sources = {plan::local(Buffer::In, 0)}, .targets = {sent}}}},
         {.channel = 1, .steps = {{.sources = {received}, .targets = {second}}}}}};
  return {{{.channel = 1,
            .steps = {{.sources = {first}, .targets = {sent}, .after = {{.lane = 1, .step = 0}}}}},
           {.channel = 0, .steps = {{.sources = {received}, .targets = {first}}}}}};
}

/// A leaf of a double tree sends its input by one lane and writes the sum by another. In place and
/// with flags in the data, what orders the two is that the sum depends on what was read: no release
/// does, and ThreadSanitizer, which knows of no dependences, may report a race.
inline bool isOrderedByItsDataAlone(const Call& call, Wire wire) {
  return wire != Wire::Simple && call.inPlace &&
         call.spec.algorithm == plan::Algorithm::DoubleTree &&
         call.spec.collective == plan::Collective::AllReduce;
}

inline std::string differenceFromHost(DeviceRanks& ranks, Call call, Wire wire, size_t shift = 0,
                                      uint32_t slices = 1) {
  constexpr uint64_t kSeed = 3;
  if (kThreadSanitized && isOrderedByItsDataAlone(call, wire)) call.inPlace = false;
  const size_t slotBytes =
      executor::kernel::slotBytesOfSlices(call.spec, ranks.slotBytes(wire), slices);
  return difference(call, hostResult(call, kSeed, slotBytes),
                    ranks.run(call, wire, kSeed, shift, slices));
}

inline constexpr Wire kWires[] = {Wire::Simple, Wire::LL, Wire::LL128};

}  // namespace tutti::tests
