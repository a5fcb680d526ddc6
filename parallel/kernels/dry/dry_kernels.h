#pragma once

// DryKernels: the same calls without data. Operands are checked as the host's kernels check them,
// no element is read or written, and what a device would have to do is counted. `scratch` is taken
// as the host's kernels take it; a GPU's take none, as their queues have memory of their own.
//
// Token ids and labels are elements too: they are not compared with the vocabulary. A loss is 0.
// Which experts tokens go to is not known either: as many to each.

#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "parallel/kernels/kernels.h"

namespace tutti::parallel {

/// What calls of one kernel were asked for.
struct KernelCount {
  int64_t calls = 0;                       ///< of a call over many tensors each of them
  size_t bytesRead = 0, bytesWritten = 0;  ///< each operand once
  /// Multiplications and additions of matrix products, in float64, which no model is too large for.
  /// Attention's are those over the pairs that causality leaves.
  double gemmFlops = 0;

  KernelCount& operator+=(const KernelCount& other);
  bool operator==(const KernelCount&) const = default;
};

class DryKernels final : public Kernels {
 public:
  /// `kind` is of the device whose place they take.
  explicit DryKernels(DeviceKind kind = DeviceKind::Host) : kind_(kind) {}
  bool dry() const override { return true; }

  /// By the names of the methods below.
  std::map<std::string, KernelCount> counts() const { return {counts_.begin(), counts_.end()}; }
  KernelCount total() const;
  /// Counts from zero again.
  void reset() { counts_.clear(); }

  void gemm(const GemmArgs& args) override;
  void fillZero(const Tensor& x) override;
  void copy(const Tensor& from, const Tensor& to) override;
  void addBias(const Tensor& bias, const Tensor& y) override;
  void biasGradient(const Tensor& dy, const Tensor& db, double beta) override;
  void add(const Tensor& from, const Tensor& to) override;
  /// Of a GPU what its own kernels say, unless the reference kernels are asked for.
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
  /// Of a method: `name` is the same literal each time.
  KernelCount& countOf(const char* name);
  void take(Arena& scratch, DType type, std::initializer_list<Shape> shapes) const;

  const DeviceKind kind_;
  std::vector<std::pair<const char*, KernelCount>> counts_;  // few: a dry run looks here most often
};

}  // namespace tutti::parallel
