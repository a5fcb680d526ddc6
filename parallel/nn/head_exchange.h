#pragma once

// The exchange of positions for heads: before attention each rank of context parallelism has all
// heads of its positions, and for attention it gets its heads of all positions. Two ranks, heads a
// and b, positions 0 to 3:
//
//             rank 0              rank 1                         rank 0              rank 1
//   rows      0: a b   3: a b     1: a b   2: a b   AllToAll ->  a: 0 1 2 3          b: 0 1 2 3
//
// An AllToAll turns queries, keys and values, another one turns back what attention gives; backward
// does the same with the gradients. Each sends (n - 1) / n of what the rank has. Source: Jacobs et
// al., "DeepSpeed-Ulysses".
//
// The ranks have to divide the heads of queries, and divide those of keys and values or be a
// multiple of them: then several ranks get the same one, and its gradient is their sum.

#include <vector>

#include "parallel/nn/module.h"

namespace tutti::parallel {

/// Throws InvalidArgument, naming the numbers, unless so many ranks of context parallelism can
/// share out these heads, which are those of one rank of tensor parallelism.
void requireHeadsShared(int ranks, int64_t heads, int64_t kvHeads);

/// The exchanges of one attention. All are collective over the ranks of context parallelism, and
/// throw what the communicator throws.
class HeadExchange {
 public:
  /// With `heads` and `kvHeads` before it, in sequences of `length`.
  HeadExchange(ParallelContext& context, int64_t heads, int64_t kvHeads, int64_t length);

  int64_t heads() const;    ///< of queries, behind it
  int64_t kvHeads() const;  ///< of keys and values
  /// Rows of queries, keys and values [batch, own positions, columns] as this rank's heads [batch,
  /// length, columns], in `memory`; and the gradient's way back.
  Tensor inputs(const Tensor& rows, Arena& memory);
  Tensor inputGradients(const Tensor& heads, Arena& memory);
  /// What attention gives [batch, length, columns of this rank's heads] as rows [batch, own
  /// positions, columns], in `memory`; and the gradient's way back.
  Tensor results(const Tensor& heads, Arena& memory);
  Tensor resultGradients(const Tensor& rows, Arena& memory);

 private:
  using Columns = std::vector<Range>;  // of rows: what a rank has of queries, keys, values
  std::vector<Columns> inputColumns(int64_t headWidth) const;
  std::vector<Columns> resultColumns(int64_t headWidth) const;
  Tensor toHeads(Purpose purpose, const Tensor& rows, const std::vector<Columns>& columns,
                 Arena& memory);
  Tensor toRows(Purpose purpose, const Tensor& heads, const std::vector<Columns>& columns,
                Arena& memory);
  void exchange(Purpose purpose, const Tensor& send, const Tensor& recv, bool toRows);

  ParallelContext& context_;
  const int64_t heads_, kvHeads_;
  const SequenceCut cut_;
};

}  // namespace tutti::parallel
