#pragma once

// Tensor parallelism: how weights are cut over its ranks, and what these exchange. A block's
// branch begins with maps whose outputs are cut (ColumnLinear), goes on with what a rank can do
// alone (its heads, its part of the inner width), and ends with a map whose inputs are cut
// (RowLinear), of which each rank has a summand. With sequence parallelism what lies between
// branches (norms, the residual stream) is cut too, by rows of [tokens, width]:
//
//                      begins a branch                    ends it
//   plain              nothing; backward: AllReduce       AllReduce; backward: nothing
//   sequence parallel  AllGather of rows; backward:       ReduceScatter to rows; backward:
//                      ReduceScatter                      AllGather
//
// Sources: Shoeybi et al., "Megatron-LM"; Korthikanti et al., "Reducing Activation Recomputation
// in Large Transformer Models".

#include <cstdint>

#include "parallel/mesh/device_mesh.h"
#include "parallel/sharding/boxes.h"
#include "parallel/store/parameter.h"
#include "parallel/tensor/arena.h"

namespace tutti::parallel {

/// How a weight lies whose dimension `dimension` is cut over all ranks of tensor parallelism.
Layout cutOverTensor(int dimension);

/// Whether `ranks` can share out such heads: they divide the queries', and divide or are a multiple
/// of those of keys and values.
bool headsFit(int64_t heads, int64_t kvHeads, int64_t ranks);
/// Gives `shape` so many ranks of tensor parallelism for attention with these heads: each has
/// whole heads of queries, and of keys and values its own, or one of those that it shares with its
/// neighbours along Rep. Throws InvalidArgument, naming the nearest numbers of ranks that do,
/// unless `ranks` divides `heads`, and divides `kvHeads` or is a multiple of it.
void setTensorRanks(MeshShape& shape, int ranks, int64_t heads, int64_t kvHeads);
/// Throws InvalidArgument, naming both, unless `shape` is one that setTensorRanks() makes.
void requireHeadsFit(const MeshShape& shape, int64_t heads, int64_t kvHeads);

/// What the exchanges of one kind of branch are called, by what they are for.
struct BranchPurposes {
  Purpose rows, rowsAgain, gradientSum;  ///< of the maps that begin it
  Purpose sum, gradientRows;             ///< of the one that ends it
};

/// Of a weight that serves each row between branches alike: a rank has seen its own rows.
inline PartialGradient partialOverRows(bool sequence) {
  return {sequence ? kTensorAxes : AxisSet{}, Purpose::RowsGradientSum};
}

/// The collectives among the ranks of tensor parallelism; with one rank there are none. Matrices
/// are contiguous. `purpose` says what a call is for; `sequence`: what lies between branches is cut
/// by rows. All are collective, and throw what the communicator throws.
class TensorParallel {
 public:
  /// Collective over those ranks, as DeviceMesh::communicator().
  explicit TensorParallel(DeviceMesh& mesh);

  int ranks() const { return alone_ ? 1 : ranks_; }
  int rank() const { return alone_ ? 0 : rank_; }
  /// Of these, how many have other heads of keys and values: those along Axis::Tensor.
  int keyParts() const { return alone_ ? 1 : keyParts_; }
  /// Which of `count` rows are this rank's where rows are cut.
  Range rowsOf(int64_t count) const { return partOf(count, ranks(), rank()); }
  /// Whether `sequence` makes a difference here.
  bool cutsRows(bool sequence) const { return sequence && ranks() > 1; }

  /// All `tokens` rows of a matrix that lies between branches: x itself, or gathered in `memory`.
  Tensor allRows(Purpose purpose, const Tensor& x, int64_t tokens, bool sequence, Arena& memory);
  /// The sum of all ranks' `summands`, [tokens, width], as it lies between branches: in place, or
  /// this rank's rows in `memory`.
  Tensor addUp(Purpose purpose, const Tensor& summands, bool sequence, Arena& memory);
  /// Where to put those summands: in `result`, or where only rows of the sum are, in `scratch`.
  Arena& arenaOfSummands(bool sequence, Arena& result, Arena& scratch) const {
    return cutsRows(sequence) ? scratch : result;
  }
  /// All ranks' x, of one shape, one after the other: [ranks, elements], in `memory`.
  Tensor stack(Purpose purpose, const Tensor& x, Arena& memory);

  CollectiveCounters counters;  ///< since it was made, or what a caller set them to

  /// As long as it lives this rank computes by itself, as if there were no other: what is placed on
  /// it whole (nn/placed_block.h).
  class Alone {
   public:
    explicit Alone(TensorParallel& tensor) : tensor_(tensor) { tensor.alone_ = true; }
    ~Alone() { tensor_.alone_ = false; }
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

   private:
    TensorParallel& tensor_;
  };

 private:
  std::vector<size_t> countsOf(int64_t rows, int64_t width) const;

  MeshCommunicator* const group_;
  const int ranks_, rank_, keyParts_;
  bool alone_ = false;
};

}  // namespace tutti::parallel
