#pragma once

// The parts of a pre-norm transformer block.
//
//   x --+-- LayerNorm -- Attention -- + --+-- LayerNorm -- MLP -- + --> y
//       +---------------------------- + --+---------------------- +

#include "parallel/nn/layers.h"

namespace tutti::parallel {

struct BlockOptions {
  std::string name;
  UnitId unit = 0;
  int64_t width = 0, heads = 0;
  double deviation = 0.02;          ///< first values of the weights
  double residualDeviation = 0.02;  ///< of the two that write to the residual stream
};

/// Two linear maps around a GELU; the inner width is four times the outer.
class Mlp final : public Module {
 public:
  explicit Mlp(const BlockOptions& options);
  Tensor forward(ParallelContext& context, const Tensor& x, Saved& saved) override;
  Tensor backward(ParallelContext& context, const Tensor& dy, Saved& saved) override;
  void declare(ParameterStore& store) override;

 private:
  Linear up_, down_;
};

/// Causal multi-head self-attention over x [batch, context, width]; queries, keys and values are
/// one linear map.
class Attention final : public Module {
 public:
  explicit Attention(const BlockOptions& options);
  Tensor forward(ParallelContext& context, const Tensor& x, Saved& saved) override;
  Tensor backward(ParallelContext& context, const Tensor& dy, Saved& saved) override;
  void declare(ParameterStore& store) override;

 private:
  int64_t heads_;
  Linear qkv_, project_;
};

class Block final : public Module {
 public:
  explicit Block(const BlockOptions& options);
  Tensor forward(ParallelContext& context, const Tensor& x, Saved& saved) override;
  Tensor backward(ParallelContext& context, const Tensor& dy, Saved& saved) override;
  void declare(ParameterStore& store) override;

 private:
  LayerNorm beforeAttention_;
  Attention attention_;
  LayerNorm beforeMlp_;
  Mlp mlp_;
};

}  // namespace tutti::parallel
