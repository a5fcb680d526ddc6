#pragma once

// A collective call as a value. All executors take it: the public arguments become one, what is
// chosen for it is added, and nothing is copied from it into other structs on its way.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tutti/reduction.h>
#include <tutti/types.h>

#include "src/base/bytes.h"
#include "src/plan/plan.h"

namespace tutti::executor {

/// What ranks must agree on about one collective.
struct CallFacts {
  plan::Collective collective = plan::Collective::Barrier;
  DataType type = DataType::UInt8;
  ReduceOp op = ReduceOp::Sum;
  bool deterministic = false;  ///< every addition rounds to the type
  plan::Algorithm algorithm = plan::Algorithm::Ring;
  int32_t root = 0;
  uint64_t count = 0;                   ///< elements of a block; of all blocks where they differ
  uint64_t blocksHash = 0;              ///< of their sizes and places; 0 where they are the same
  std::array<uint64_t, 2> reduction{};  ///< the name of one of the caller's own, instead of `op`
  uint64_t planHash = 0;                ///< of the chosen plans

  bool operator==(const CallFacts&) const = default;
  /// Never has kExchangeBit.
  uint32_t fingerprint() const;
  /// Elements of a block; where blocks differ, of the mean one, rounded up.
  uint64_t blockCount(int ranks) const;
  std::string describe() const;  ///< "all_reduce of 1024 float32, sum, by ring"
  void write(base::ByteWriter& out) const;
  static CallFacts read(base::ByteReader& in);
};

/// A name of up to 16 characters in two words.
std::array<uint64_t, 2> nameWords(const std::string& name);

/// What a call asks for besides: the same on all ranks.
struct CallWishes {
  std::string algorithm = {};  ///< empty: the communicator's
  bool ifPossible = false;     ///< an algorithm that does not exist for the call is none
  uint32_t mostBlocks = 0;     ///< of its kernel, where its lanes fit there; 0: all
  bool isNone() const { return algorithm.empty() && mostBlocks == 0; }
  bool operator==(const CallWishes&) const = default;
};

/// One rank's call. Buffers are memory that the executor's device can address, at any address.
struct CollectiveCall {
  CallFacts facts;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  double scalar = 1.0;             ///< of PreMulSum
  const void* scalarAt = nullptr;  ///< an element of `facts.type` that is read instead, or null
  Reduction reduction = {};        ///< instead of `facts.op`, if given; on the host alone
  CallWishes wishes = {};
  /// Where blocks differ in size: by rank, the same on all ranks. The plan is `unevenSafe` then.
  std::shared_ptr<const std::vector<plan::Block>> blocks = nullptr;

  // Its numbering, by which messages tell this call from others. The same on all ranks.
  uint32_t callHash = 0;   ///< the facts' fingerprint, when all of them are known
  uint32_t operation = 0;  ///< on the host: its number among the communicator's collectives

  /// Of the larger buffer, for a plan with this shape.
  uint64_t bufferBytes(const plan::PlanSpec& spec) const;
  /// Throws InvalidArgument where the reduction is not defined for the type, or where blocks differ
  /// and the plan or their number does not fit.
  void requireFits(const plan::PlanSpec& spec) const;
  /// How the plan cuts it into rounds, on this rank, by slots of so many bytes.
  plan::PlanShape shape(const plan::PlanSpec& spec, int rank, size_t slotBytes) const;
};

}  // namespace tutti::executor
