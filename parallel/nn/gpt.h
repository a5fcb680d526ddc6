#pragma once

// Gpt: a byte- or token-level GPT-2-style language model. Learned positions, pre-norm blocks with
// LayerNorm, GELU and biases, and an output map that is the token embedding itself (tied).

#include "parallel/nn/expert_options.h"
#include "parallel/nn/language_model.h"
#include "parallel/nn/placed_block.h"

namespace tutti::parallel {

struct GptOptions {
  int64_t vocabulary = 256;
  int64_t context = 128;  ///< most tokens of one sequence
  int64_t layers = 4;
  int64_t width = 128;
  int64_t heads = 4;
  /// What lies between branches is cut by rows over the ranks of tensor parallelism, if there are
  /// several.
  bool sequenceParallel = false;
  Recompute recompute = Recompute::None;
  Branches branches = Branches::InTurn;
  /// How attention gets at the positions of other ranks of context parallelism, if there are any.
  ContextAttention contextAttention = ContextAttention::Ring;
  ExpertOptions experts = {};
};

/// Throws InvalidArgument, naming the option, when the model cannot be built.
void check(const GptOptions& options);

/// What a model would take: elements of its parameters, and elements that forward keeps for each
/// token until backward, a mean over so many ranks of tensor parallelism. In float64, so that no
/// option is too large to ask.
double parameterCount(const GptOptions& options);
/// And of those the experts', which the ranks along ep share out.
double expertParameterCount(const GptOptions& options);
double savedPerToken(const GptOptions& options, int tensorRanks = 1);

class Gpt final : public LanguageModel {
 public:
  explicit Gpt(const GptOptions& options);
  const GptOptions& options() const { return options_; }

 private:
  GptOptions options_;
};

}  // namespace tutti::parallel
