#pragma once

// What `tutti perf` puts into buffers and expects to find: whole numbers so small that every
// reduction is exact in every type, so each element is compared for equality.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <tutti/communicator.h>

#include "src/numbers/fill.h"
#include "src/tools/perf/perf_options.h"

namespace tutti::tools {

/// Elements of one call. `count` is what the call is given.
struct PerfShape {
  uint64_t count = 0, inCount = 0, outCount = 0;
  uint64_t seed = 0;  ///< of the data; the same on all ranks
  uint64_t own = 0;   ///< where this rank's block begins in the larger buffer, if it has blocks
};
/// `elements` is the size asked for: of the larger buffer. It is rounded down to whole blocks.
PerfShape perfShape(const PerfOptions& options, int rank, int ranks, uint64_t elements);

/// Elements of alltoallv's block between two ranks, in both directions: `unit` to 3 * `unit`. Those
/// of the other collectives with uneven blocks are rank 0's, on all ranks.
inline uint64_t unevenCount(int rank, int peer, uint64_t unit) {
  return unit * static_cast<uint64_t>(1 + (rank + peer) % 3);
}
/// Of all blocks of `rank`, by peer.
std::vector<size_t> unevenCounts(int rank, int ranks, uint64_t unit);

struct PerfPattern {
  Collective collective;
  std::optional<PerfExchange> exchange;
  DataType type;
  ReduceOp op;
  int rank, ranks, root;
  PerfShape shape;

  double scalar() const;  ///< of this rank, for premulsum
  void fillInput(std::byte* in) const;
  /// Elements of this rank's result that differ from what they must be, and the first of them.
  numbers::Comparison compare(const std::byte* out) const;

 private:
  /// Of a rank's input.
  struct Block {
    size_t from, count;
  };
  numbers::FillPattern pattern() const;
  /// A block of each rank's input, one after the other.
  numbers::Comparison compareBlocks(const std::byte* out,
                                    const std::function<Block(int rank)>& blockOf) const;
  /// The block that `from` has for this rank in alltoallv.
  Block unevenBlock(int from) const;
};

/// Collective: calls `barrier` once for each of some ranks, which comes a millisecond after the
/// others, and counts the ranks that were through before the last one had come. Clocks must be one:
/// the ranks of one host.
int64_t countEarlyLeaves(Communicator& c, const std::function<void()>& barrier);

}  // namespace tutti::tools
