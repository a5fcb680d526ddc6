#pragma once

// What the host executor makes of a call: all ranks in one thread, over a wire without faults. The
// kernel must give the same bits.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tutti/types.h>
#include "src/executor/call.h"
#include "src/plan/plan.h"

namespace tutti::tests {

using Buffer = std::vector<std::byte>;

/// One collective on all ranks, by a plan.
struct Call {
  plan::PlanSpec spec;
  uint64_t count = 0;
  DataType type = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  bool deterministic = false;
  bool inPlace = false;
  bool hasScalarInMemory = false;        ///< PreMulSum's; the host executor is given the number
  std::vector<plan::Block> blocks = {};  ///< by rank, where they differ; `count` is not used then

  /// As the rank's executor takes it.
  executor::CollectiveCall on(int rank, const std::byte* in, std::byte* out) const;
  /// Where the rank's block lies in a buffer that has all.
  plan::Block blockOf(int rank) const;
  uint64_t bytesOf(plan::Buffer buffer, int rank) const;
  bool gives(plan::Buffer buffer, int rank) const {
    return plan::isGiven(spec, buffer, rank) && spec.collective != plan::Collective::Barrier;
  }
  /// Both buffers are there and are one, or one is the rank's block of the other.
  bool shares(int rank) const {
    return inPlace && spec.inPlaceSafe && gives(plan::Buffer::In, rank) &&
           gives(plan::Buffer::Out, rank);
  }
  /// PreMulSum's; in memory every type has it.
  double scalar(int rank) const {
    return op != ReduceOp::PreMulSum ? 1.0 : hasScalarInMemory ? 1.0 + rank : 0.75 + rank;
  }
  /// An element with that value.
  Buffer scalarElement(int rank) const;
  std::string describe() const;
};

/// A rank's memory: its input and its output at these offsets.
struct Memory {
  Buffer bytes;
  size_t in = 0, out = 0;
};
/// Inputs are filled from `seed`; everything else with a pattern.
Memory memoryOf(const Call& call, int rank, uint64_t seed);

/// The ranks' memory after the call. Slots are as large as the kernel's: they decide which element
/// is in which division, and so in which order it is added up.
std::vector<Memory> hostResult(const Call& call, uint64_t seed, size_t slotBytes);

/// Where two results differ first; nothing where they do not.
std::string difference(const Call& call, const std::vector<Memory>& expected,
                       const std::vector<Buffer>& actual);

}  // namespace tutti::tests
