#pragma once

// Context parallelism: each rank has some positions of every sequence (sharding/sequence_cut.h), of
// which it computes all but attention by itself. Attention needs the keys and values of all
// positions before, and there are two ways to them:
//
//   Ring    keys and values travel from rank to rank, and each computes with those that it has
//           (nn/ring_attention.h)
//   Heads   an exchange gives each rank some heads of all positions, and another one turns that
//           back (nn/head_exchange.h)
//
// All ranks are given whole sequences of token ids and labels, and take their own positions.

#include <memory>
#include <vector>

#include <tutti/device.h>
#include "parallel/kernels/kernels.h"
#include "parallel/mesh/device_mesh.h"
#include "parallel/sharding/sequence_cut.h"

namespace tutti::parallel {

/// How attention gets at the positions of other ranks. The sums are the same but for their order.
enum class ContextAttention : uint8_t { Ring, Heads };

/// This rank among those of context parallelism. With one rank nothing is cut and nothing sent.
class ContextParallel {
 public:
  /// Collective over those ranks, as DeviceMesh::communicator().
  explicit ContextParallel(DeviceMesh& mesh);

  int ranks() const { return ranks_; }
  int rank() const { return rank_; }
  bool cuts() const { return ranks_ > 1; }
  SequenceCut cutOf(int64_t length) const { return {length, ranks_}; }
  /// What this rank has of sequences [batch, length]: [batch, its positions].
  Shape own(const Shape& tokens) const;

  /// This rank's positions of x [batch, length]: x itself, or copied to `memory`.
  Tensor cut(Kernels& kernels, const Tensor& x, Arena& memory) const;
  /// All positions of x [batch, this rank's, width] of sequences of `length`, in their order: x
  /// itself, or gathered in `memory`. Collective.
  Tensor whole(Purpose purpose, Kernels& kernels, const Tensor& x, int64_t length, Arena& memory);
  /// int32: which positions of a sequence of `length` are this rank's, for kernels, valid until it
  /// is asked for another length. No data where all are.
  Tensor positions(int64_t length);

  /// Of all blocks [batch, a rank's positions, width] in `blocks`, one after the other in the order
  /// of ranks, the one of `rank`.
  Tensor blockOf(const Tensor& blocks, const SequenceCut& cut, int rank) const;
  /// Copies such blocks to `all` [batch, length, width], or from there.
  void fromBlocks(Kernels& kernels, const Tensor& blocks, const Tensor& all) const;
  void toBlocks(Kernels& kernels, const Tensor& all, const Tensor& blocks) const;

  MeshCommunicator& group() const { return *group_; }  ///< where there are several ranks
  Stream& stream() { return *stream_; }                ///< of what goes on beside computation

 private:
  template <class Visit>
  void forPieces(const Tensor& blocks, const Tensor& all, const Visit& visit) const;

  MeshCommunicator* group_;
  int ranks_, rank_;
  const DeviceMesh& mesh_;
  Arena memory_;  // of positions, on a GPU
  std::vector<int32_t> numbers_;
  Tensor positions_;          // these
  int64_t positionsOf_ = -1;  // the length that they are of
  std::unique_ptr<Stream> stream_;
};

}  // namespace tutti::parallel
