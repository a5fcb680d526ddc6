#pragma once

// The parts of a pre-norm transformer block.
//
//   x --+-- norm -- attention -- + --+-- norm -- MLP -- + --> y
//       +----------------------- + --+----------------- +
//
// GPT-2's are here; nn/llama.h has Llama's.

#include <memory>
#include <utility>

#include "parallel/nn/experts.h"
#include "parallel/nn/head_exchange.h"

namespace tutti::parallel {

inline constexpr BranchPurposes kAttentionPurposes{.rows = Purpose::AttentionRows,
                                                   .rowsAgain = Purpose::AttentionRowsAgain,
                                                   .gradientSum = Purpose::AttentionGradientSum,
                                                   .sum = Purpose::AttentionSum,
                                                   .gradientRows = Purpose::AttentionGradientRows};
inline constexpr BranchPurposes kMlpPurposes{.rows = Purpose::MlpRows,
                                             .rowsAgain = Purpose::MlpRowsAgain,
                                             .gradientSum = Purpose::MlpGradientSum,
                                             .sum = Purpose::MlpSum,
                                             .gradientRows = Purpose::MlpGradientRows};

struct BlockOptions {
  std::string name;
  UnitId unit = 0;
  int64_t width = 0, heads = 0;
  double deviation = kDeviation;          ///< first values of the weights
  double residualDeviation = kDeviation;  ///< of the two that write to the residual stream
  bool sequenceParallel = false;          ///< what lies between branches is cut by rows
  bool recomputeAttention = false;        ///< what attention gives is not kept
  ContextAttention contextAttention = ContextAttention::Ring;
  int attentionOwner = -1, mlpOwner = -1;  ///< of each branch's weights, norm and all
  ExpertOptions experts = {};              ///< count 0: one MLP
  int64_t expertNumber = 0;                ///< of the block, among those that have experts
};

/// Of the experts of such a block.
ExpertsOptions expertsOf(const BlockOptions& options);

/// Two linear maps around a GELU; the inner width is four times the outer.
class Mlp final : public Branch {
 public:
  explicit Mlp(const BlockOptions& options);
  using Branch::forward;
  Tensor forward(ParallelContext& context, const Tensor& x, const Tensor& residual,
                 ActivationStash& stash) override;
  Tensor backward(ParallelContext& context, const Tensor& dy, ActivationStash& stash) override;
  void declare(ParameterStore& store) override;

 private:
  ColumnLinear up_;
  RowLinear down_;
};

struct AttentionOptions {
  std::string name;  ///< of the block
  UnitId unit = 0;
  int64_t width = 0, heads = 0;
  int64_t kvHeads = 0;  ///< of keys and values; divides heads
  double deviation = kDeviation, residualDeviation = kDeviation;
  bool bias = true, sequenceParallel = false;
  bool recompute = false;  ///< its result is not kept: backward computes it again
  ContextAttention context = ContextAttention::Ring;  ///< where ranks have some positions each
  int owner = -1;                                     ///< of the weights: nothing is cut
};

/// Causal multi-head self-attention, of each sequence by itself.
class Attention : public Branch {
 public:
  explicit Attention(const AttentionOptions& options);
  using Branch::forward;
  Tensor forward(ParallelContext& context, const Tensor& x, const Tensor& residual,
                 ActivationStash& stash) override;
  Tensor backward(ParallelContext& context, const Tensor& dy, ActivationStash& stash) override;
  void declare(ParameterStore& store) override;

 private:
  /// What positions do to queries and keys, in place, in a row of qkv [batch, own positions,
  /// columns] neighbours of `heads` heads in all, which are positions `at` of their sequences;
  /// `back`: to their gradients.
  virtual void turn(ParallelContext&, const Tensor& /*qkv*/, const Tensor& /*at*/,
                    int64_t /*heads*/, bool /*back*/) {}

  struct Part {
    int64_t heads, kvHeads;
  };
  struct Result {
    Tensor out, logSumExp;
  };
  Part layerPart(const ParallelContext& context) const;
  Part ownPart(ParallelContext& context, const ActivationStash& stash) const;
  bool exchanges(const ParallelContext& context) const;
  HeadExchange exchange(ParallelContext& context, const ActivationStash& stash) const;
  Tensor inputs(ParallelContext& context, const Tensor& x, ActivationStash& stash);
  Result attend(ParallelContext& context, const Tensor& qkv, const ActivationStash& stash,
                Arena& outs, Arena& sums) const;
  Tensor goOn(ParallelContext& context, const Tensor& qkv, const Tensor& residual,
              ActivationStash& stash);
  Tensor ownRows(ParallelContext& context, const Tensor& out, const ActivationStash& stash,
                 Arena& memory) const;
  Tensor inputGradients(ParallelContext& context, const Tensor& dOut, ActivationStash& stash);

  const UnitId unit_;
  const int64_t heads_, kvHeads_;
  const bool recompute_, whole_;
  const ContextAttention context_;
  ColumnLinear qkv_;
  RowLinear project_;
};

/// Two branches around the residual stream, each behind a norm of its own.
class TransformerBlock : public Module {
 public:
  struct Parts {
    std::unique_ptr<Norm> beforeAttention;
    std::unique_ptr<Branch> attention;
    std::unique_ptr<Norm> beforeMlp;
    std::unique_ptr<Branch> mlp;
  };
  explicit TransformerBlock(Parts parts) : parts_(std::move(parts)) {}
  Tensor forward(ParallelContext& context, const Tensor& x, ActivationStash& stash) override;
  Tensor backward(ParallelContext& context, const Tensor& dy, ActivationStash& stash) override;
  void declare(ParameterStore& store) override;

 private:
  Parts parts_;
};

/// Those of GPT-2: LayerNorm, Attention, Mlp or Experts.
TransformerBlock::Parts gptParts(const BlockOptions& options);

class GptBlock final : public TransformerBlock {
 public:
  explicit GptBlock(const BlockOptions& options);
};

}  // namespace tutti::parallel
