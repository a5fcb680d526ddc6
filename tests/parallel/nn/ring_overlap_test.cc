// Ring attention computes while keys and values travel: a rank gets through its first block
// although the other one has not begun to send or receive, in forward and in backward.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "parallel/kernels/host/host_kernels.h"
#include "parallel/nn/ring_attention.h"
#include "tests/parallel/support/on_ranks.h"

namespace tutti::parallel {
namespace {

/// The kernels of ring attention; those of its blocks say that they were called.
class Watched final : public Kernels {
 public:
  explicit Watched(std::atomic<int>& blocks) : blocks_(blocks) {}

  void attentionBlock(const AttentionBlockArgs& args, Arena& scratch) override {
    host_.attentionBlock(args, scratch);
    ++blocks_;
  }
  void attentionBlockBackward(const AttentionBlockBackwardArgs& args, Arena& scratch) override {
    host_.attentionBlockBackward(args, scratch);
    ++blocks_;
  }
  void attentionMerge(const AttentionMergeArgs& args) override { host_.attentionMerge(args); }
  void fillZero(const Tensor& x) override { host_.fillZero(x); }
  void copy(const Tensor& from, const Tensor& to) override { host_.copy(from, to); }
  void add(const Tensor& from, const Tensor& to) override { host_.add(from, to); }

  void gemm(const GemmArgs&) override { none(); }
  void addBias(const Tensor&, const Tensor&) override { none(); }
  void biasGradient(const Tensor&, const Tensor&, double) override { none(); }
  void layerNorm(const LayerNormArgs&) override { none(); }
  void layerNormBackward(const LayerNormBackwardArgs&) override { none(); }
  void layerNormWeights(const LayerNormWeightArgs&) override { none(); }
  void gelu(const Tensor&, const Tensor&) override { none(); }
  void geluBackward(const Tensor&, const Tensor&, const Tensor&) override { none(); }
  void rmsNorm(const RmsNormArgs&) override { none(); }
  void rmsNormBackward(const RmsNormBackwardArgs&) override { none(); }
  void rmsNormWeights(const RmsNormWeightArgs&) override { none(); }
  void rotary(const RotaryArgs&) override { none(); }
  void swiGlu(const Tensor&, const Tensor&) override { none(); }
  void swiGluBackward(const Tensor&, const Tensor&, const Tensor&) override { none(); }
  void attention(const AttentionArgs&, Arena&) override { none(); }
  void attentionBackward(const AttentionBackwardArgs&, Arena&) override { none(); }
  void embedding(const EmbeddingArgs&) override { none(); }
  void embeddingWeights(const EmbeddingWeightArgs&) override { none(); }
  void logitStatistics(const LogitStatisticsArgs&) override { none(); }
  double crossEntropy(const CrossEntropyArgs&) override { return none(), 0; }
  void route(const RouteArgs&) override { none(); }
  void countChoices(const CountChoicesArgs&) override { none(); }
  void placeTokens(const PlaceTokensArgs&) override { none(); }
  RouterLosses routerGradient(const RouterGradientArgs&) override { return none(), RouterLosses{}; }
  void spreadRows(const SpreadRowsArgs&) override { none(); }
  void combineRows(const CombineRowsArgs&) override { none(); }
  void rowDots(const RowDotsArgs&) override { none(); }
  void adamW(const AdamWArgs&) override { none(); }
  void sgd(const SgdArgs&) override { none(); }
  void addSquares(std::span<const Tensor>, ExactSum&) override { none(); }

 private:
  static void none() { fail(ErrorCode::Internal, "ring attention has no use for this kernel"); }
  HostKernels host_;
  std::atomic<int>& blocks_;
};

/// Whether there are so many before a deadline, which only a failure reaches.
bool reached(const std::atomic<int>& blocks, int count) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (blocks < count && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  return blocks >= count;
}

TEST(RingAttention, ComputesWhileKeysAndValuesTravel) {
  std::atomic<int> forward{0}, backward{0}, others{0};
  const auto waited = onRanks(MeshShape::parse("cp=2"), false, [&](DeviceMesh& mesh) -> int {
    const bool first = mesh.rank() == 0;
    HostKernels host;
    Watched watchedForward(first ? forward : others), watchedBackward(first ? backward : others);
    ParameterStore store(mesh, host, {}, DType::Float64);
    Arena scratch("scratch"), memory("memory");
    const auto make = [&](const Shape& shape) {
      const Tensor x = memory.allocate(DType::Float64, shape);
      host.fillZero(x);
      return x;
    };
    const Tensor qkv = make({1, 4, 6}), dQkv = make({1, 4, 6});
    const Tensor out = make({1, 4, 2}), dOut = make({1, 4, 2}), sums = make({1, 1, 4});
    int met = 0;
    {
      ParallelContext context{mesh, watchedForward, store, scratch};
      met += first || reached(forward, 1);
      ringAttention(context, {qkv, out, sums, 1, 1}, 8);
    }
    {
      ParallelContext context{mesh, watchedBackward, store, scratch};
      met += first || reached(backward, 1);
      ringAttentionBackward(context, {dOut, qkv, out, sums, dQkv, 1, 1}, 8);
    }
    return met;
  });
  EXPECT_EQ(waited, (std::vector<int>{2, 2}));
  EXPECT_EQ(forward, 5);
  EXPECT_EQ(backward, 5);
}

}  // namespace
}  // namespace tutti::parallel
