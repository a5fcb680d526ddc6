#pragma once

// Kernels on the CPU, in float64, float32 and bfloat16: GEMM by blas.h, everything else by
// elementwise kernels compiled for this processor's instruction set. Bfloat16 is widened to
// float32, but in products where the processor multiplies it faster. One object may be used by
// several ranks' threads at once; it keeps no state. Methods call each other through the interface,
// so that a derived class sees each call; a benchmark times them so.

#include "parallel/kernels/host/elementwise.h"
#include "parallel/kernels/kernels.h"

namespace tutti::parallel {

class HostKernels : public Kernels {
 public:
  /// Uses the best kernels that this processor has.
  HostKernels();
  /// `brainProducts`: products of bfloat16 are not widened, which host::multipliesBrain() allows.
  HostKernels(const host::ElementwiseSet& elementwise, bool brainProducts);

  void gemm(const GemmArgs& args) override;
  void fillZero(const Tensor& x) override;
  void copy(const Tensor& from, const Tensor& to) override;
  void addBias(const Tensor& bias, const Tensor& y) override;
  void biasGradient(const Tensor& dy, const Tensor& db, double beta) override;
  void add(const Tensor& from, const Tensor& to) override;
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
  void gemmThrough(const GemmArgs& args);
  void gemmFused(const GemmArgs& args, const Tensor& sums);
  void gemmOfBrain(const GemmArgs& args);
  /// Of `sums` and of what the epilogue keeps, to `result`, which may be the sums.
  void activate(const GemmEpilogue& epilogue, const Tensor& sums, const Tensor& result);
  void scale(const Tensor& x, double by);
  template <class Norm>
  Norm withSum(const char* operation, const Norm& args);
  void update(const AdamWArgs& args, const AdamWTensors& tensors);
  void update(const SgdArgs& args, const SgdTensors& tensors);
  void addSquaresOf(const Tensor& x, ExactSum& sum);
  /// Calls body(elementwise kernels of x's type); the argument's type tells the body what T is.
  template <class Body>
  void dispatch(const Tensor& x, Body body) const {
    switch (x.type) {
      case DType::Float32: return body(elementwise_.floats, float{});
      case DType::Float64: return body(elementwise_.doubles, double{});
      default:
        fail(ErrorCode::Unsupported,
             "the host kernels compute in float64, float32, bfloat16 and float16, not in ",
             toString(x.type));
    }
  }

  const host::ElementwiseSet& elementwise_;
  const bool brainProducts_;
};

}  // namespace tutti::parallel
