#pragma once

// Kernels on a GPU of NVIDIA: every operand is read and written where it lies. Matrix products
// (gemm/README.md) and attention (attention/README.md) of 16 bits are computed by tensor cores. All
// others are reference kernels: what tuned ones are compared with, and what computes what these do
// not.
//
// Operands lie in memory that the GPU addresses, pinned memory of the host included. Calls are
// enqueued on one stream, and return before they are done, but for those that the host learns
// something from: crossEntropy, placeTokens, routerGradient and addSquares wait for the stream
// once, for their results; and what looks up ids, labels, positions, experts or places until these
// have been looked at, beside the kernels that take them, on a stream of this object's own, to
// refuse those that are not there (embedding, embeddingWeights, logitStatistics, rotary with
// positions, countChoices, spreadRows, combineRows, rowDots).
//
// Kernels of a sequence (inSequence) that comes for the second time, with the same operands, are
// captured into a graph, which is launched in their place from then on; TUTTI_GRAPHS=0: never.
//
// Types of 16 bits are computed with in float32, float64 in float64. A result is a function of the
// operands' values and shapes, of gemm, attention, norms, rowDots, sums over rows and the loss also
// of how operands are aligned, and of the first two of the GPU, which decide on the kernel: nothing
// but integers is added by atomics.
//
// Memory besides operands, which gemm of few large sums, sums over many rows, attentionBackward,
// embeddingWeights, placeTokens, addSquares, route of types of 16 bits, crossEntropy and
// routerGradient need, is this object's: it grows when a call needs more than any before, so that a
// training step allocates nothing after the first, and nothing is given back before the end. The
// arenas that the interface passes are not used.

#include <memory>

#include <tutti/device.h>

#include "parallel/kernels/kernels.h"

namespace tutti::parallel {

namespace cuda {
class Attentions;
class Gemms;
struct GemmOptions;
class Queue;
struct ColumnSums;
struct NormBackward;
enum class MemoryBoundFamily;
}  // namespace cuda

/// For one thread at a time. Besides the errors of the interface calls throw Cuda for what a kernel
/// before them may have done wrong, and Unsupported for dimensions of 2^30 or more.
class CudaKernels final : public Kernels {
 public:
  /// Loads all kernels on the stream's GPU: a kernel that is first used while another spins would
  /// wait for it. Throws InvalidArgument unless it is a stream of CUDA, which must outlive this.
  explicit CudaKernels(StreamRef stream);
  /// With these in place of what TUTTI_GEMM and TUTTI_GEMM_TABLE say.
  CudaKernels(StreamRef stream, const cuda::GemmOptions& gemms);
  ~CudaKernels() override;  ///< waits for what it has enqueued
  Device device() const override { return device_; }
  void beginSequence() override;
  void endSequence() override;
  void abandonSequence() noexcept override;
  /// How often a graph was launched in the place of a sequence's kernels.
  int64_t graphLaunches() const;

  void gemm(const GemmArgs& args) override;
  void fillZero(const Tensor& x) override;
  void copy(const Tensor& from, const Tensor& to) override;
  void copyAll(std::span<const TensorCopy> all) override;
  void addBias(const Tensor& bias, const Tensor& y) override;
  void biasGradient(const Tensor& dy, const Tensor& db, double beta) override;
  void add(const Tensor& from, const Tensor& to) override;
  /// TUTTI_MEMORY_BOUND=reference: 0.
  int64_t normSlices(const NormSlicesArgs& args) const override;
  void layerNorm(const LayerNormArgs& args) override;
  void layerNormBackward(const LayerNormBackwardArgs& args) override;
  void layerNormWeights(const LayerNormWeightArgs& args) override;
  void gelu(const Tensor& x, const Tensor& y) override;
  void geluBackward(const Tensor& dy, const Tensor& x, const Tensor& dx) override;
  void rmsNorm(const RmsNormArgs& args) override;
  void rmsNormBackward(const RmsNormBackwardArgs& args) override;
  void rmsNormWeights(const RmsNormWeightArgs& args) override;
  void rotary(const RotaryArgs& args) override;
  void swiGlu(const Tensor& x, const Tensor& y) override;
  void swiGluBackward(const Tensor& dy, const Tensor& x, const Tensor& dx) override;
  void attention(const AttentionArgs& args, Arena& scratch) override;
  void attentionBackward(const AttentionBackwardArgs& args, Arena& scratch) override;
  void attentionBlock(const AttentionBlockArgs& args, Arena& scratch) override;
  void attentionBlockBackward(const AttentionBlockBackwardArgs& args, Arena& scratch) override;
  void attentionMerge(const AttentionMergeArgs& args) override;
  void embedding(const EmbeddingArgs& args) override;
  void embeddingWeights(const EmbeddingWeightArgs& args) override;
  void logitStatistics(const LogitStatisticsArgs& args) override;
  double crossEntropy(const CrossEntropyArgs& args) override;
  void route(const RouteArgs& args) override;
  void countChoices(const CountChoicesArgs& args) override;
  void placeTokens(const PlaceTokensArgs& args) override;
  RouterLosses routerGradient(const RouterGradientArgs& args) override;
  void spreadRows(const SpreadRowsArgs& args) override;
  void combineRows(const CombineRowsArgs& args) override;
  void rowDots(const RowDotsArgs& args) override;
  void adamW(const AdamWArgs& args) override;
  void sgd(const SgdArgs& args) override;
  void addSquares(std::span<const Tensor> all, ExactSum& sum) override;

 private:
  /// With the scratch that the sums need.
  void startSums(const char* operation, cuda::ColumnSums sums, bool doubles);
  /// With the sums of slices that there may be.
  void startBackward(const char* operation, const cuda::NormBackward& norm, const Tensor& sums,
                     bool doubles);
  void startWeights(const char* operation, const cuda::ColumnSums& all, const Tensor& sums,
                    bool doubles);

  const Device device_;
  const std::unique_ptr<cuda::Queue> queue_;
  const std::unique_ptr<cuda::Gemms> gemms_;
  const std::unique_ptr<cuda::Attentions> attentions_;
  const cuda::MemoryBoundFamily memoryBound_;
};

}  // namespace tutti::parallel
