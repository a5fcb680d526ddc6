#pragma once

// The host's kernels with a clock around each: where the time of a training step goes. A kernel
// that calls others (a product with an epilogue) has only the time that it does not spend in them.

#include <map>
#include <string>
#include <vector>

#include "parallel/kernels/dry/dry_kernels.h"
#include "parallel/kernels/host/host_kernels.h"

namespace tutti::bench {

using namespace tutti::parallel;

/// What the calls of one kernel took, and what they were asked for.
struct KernelTime {
  double nanoseconds = 0;
  KernelCount count;  ///< of calls while work was counted
};

class TimedKernels final : public HostKernels {
 public:
  /// By name: that of the method, and of products what they are for.
  const std::map<std::string, KernelTime>& times() const { return times_; }
  /// Counts work from now on, or no longer: counting costs time that is nobody's.
  void setCounting(bool counting) { counting_ = counting; }
  /// Forgets the times, and keeps the counts.
  void resetTimes();

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
  void attention(const AttentionArgs& args, Arena& scratch) override;
  void attentionBackward(const AttentionBackwardArgs& args, Arena& scratch) override;
  void embedding(const EmbeddingArgs& args) override;
  void embeddingWeights(const EmbeddingWeightArgs& args) override;
  double crossEntropy(const CrossEntropyArgs& args) override;
  void adamW(const AdamWArgs& args) override;
  void addSquares(std::span<const Tensor> all, ExactSum& sum) override;

 private:
  /// A call under way, and the time of those that it has made.
  struct Frame {
    const std::string name;
    double nested = 0;
    bool passedOn = false;  ///< to one of its own name: the work is that one's
  };
  /// Calls body(kernels): the host's, within the clock, and before it those that count.
  template <class Count, class Body>
  void timed(const char* name, const Count& count, const Body& body);

  DryKernels counter_;
  bool counting_ = false;
  std::vector<Frame> frames_;
  std::map<std::string, KernelTime> times_;
};

}  // namespace tutti::bench
