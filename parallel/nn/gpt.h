#pragma once

// Gpt: a byte- or token-level GPT-2-style language model. Learned positions, pre-norm blocks, a
// final LayerNorm, and an output map that is the token embedding itself (tied).
//
// Units, for the ParameterStore: 0 the embeddings, 1 to layers the blocks, layers + 1 the final
// norm.

#include <memory>
#include <vector>

#include "parallel/nn/transformer.h"

namespace tutti::parallel {

struct GptOptions {
  int64_t vocabulary = 256;
  int64_t context = 128;  ///< most tokens of one sequence
  int64_t layers = 4;
  int64_t width = 128;
  int64_t heads = 4;
};

/// Throws InvalidArgument, naming the option, when the model cannot be built.
void check(const GptOptions& options);

/// What a model would take: elements of its parameters, and elements that forward keeps for each
/// token until backward. In float64, so that no option is too large to ask.
double parameterCount(const GptOptions& options);
double savedPerToken(const GptOptions& options);

class Gpt final : public Module {
 public:
  explicit Gpt(const GptOptions& options);

  /// int32 token ids [batch, at most context] to logits [batch, context, vocabulary].
  Tensor forward(ParallelContext& context, const Tensor& tokenIds, Saved& saved) override;
  /// The gradient of the logits; returns an empty tensor, as token ids have no gradient.
  Tensor backward(ParallelContext& context, const Tensor& dLogits, Saved& saved) override;
  void declare(ParameterStore& store) override;
  const GptOptions& options() const { return options_; }

 private:
  Tensor head(ParallelContext& context, const Tensor& x, Saved& saved);
  Tensor headBackward(ParallelContext& context, const Tensor& dLogits, Saved& saved);
  void embeddingBackward(const Tensor& dx, Saved& saved);
  UnitId headUnit() const { return static_cast<UnitId>(options_.layers) + 1; }

  GptOptions options_;
  Parameter tokens_, positions_;
  std::vector<std::unique_ptr<Block>> blocks_;
  LayerNorm finalNorm_;
};

}  // namespace tutti::parallel
