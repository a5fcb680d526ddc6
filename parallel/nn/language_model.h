#pragma once

// LanguageModel: what all decoder-only transformers have in common: token embeddings, blocks, a
// final norm, and an output map to logits. Models differ in their blocks and norms, and in whether
// positions are learned and the output map is the token embedding itself (tied).
//
// Units, for the ParameterStore: 0 the embeddings, 1 to layers the blocks, layers + 1 the final
// norm and, where it is not tied, the output map.
//
// A tied output map is a copy of the token embedding where the two are not computed with together,
// in different stages of a pipeline. It is one in deterministic mode too: which gradients are added
// up in which order is then the same with one stage as with several.

#include <memory>
#include <vector>

#include "parallel/nn/layers.h"

namespace tutti::parallel {

class LanguageModel : public Model {
 public:
  struct Parts {
    int64_t vocabulary = 0, context = 0, width = 0;
    double embeddingDeviation = 0.02;  ///< of the first values, positions' too
    double outputDeviation = 0.02;
    bool learnedPositions = false, tied = false;
    bool sequenceParallel = false;  ///< what lies between branches is cut by rows
    Recompute recompute = Recompute::None;
    std::vector<int64_t> blockCosts;  ///< multiplications of a block's maps, for each token
    int64_t experts = 0;              ///< of all blocks together
    bool dropsTokens = false;         ///< by how many a sequence has
    std::vector<std::unique_ptr<Module>> blocks;
    std::unique_ptr<Norm> finalNorm;
  };
  explicit LanguageModel(Parts parts);

  using Model::backward;
  using Model::forward;
  /// int32 token ids [batch, at most context] to logits [batch, own positions, vocabulary], cut
  /// over the ranks of tensor parallelism; or the part of that way that is asked for. Rows of
  /// logits begin at multiples of 16 bytes (Arena::allocateRows): of a vocabulary of 50257 in types
  /// of 16 bits there are gaps of 7 elements, without which products that read the gradient of
  /// logits could not use TMA.
  Tensor forward(ParallelContext& context, UnitRange part, const Tensor& x,
                 ActivationStash& stash) override;
  Tensor backward(ParallelContext& context, UnitRange part, const Tensor& dy,
                  ActivationStash& stash) override;
  Shape shapeBetween(const ParallelContext& context, const Shape& tokens) const override;
  UnitId unitCount() const override { return headUnit() + 1; }
  std::vector<int64_t> unitCosts() const override;
  bool goesOn() const override { return !dropsTokens_; }
  size_t expertCount() const override { return static_cast<size_t>(experts_); }
  void declare(ParameterStore& store) override;
  int64_t vocabulary() const override { return tokens_.global[0]; }

 private:
  Tensor embed(ParallelContext& context, const Tensor& tokenIds, ActivationStash& stash);
  bool isSequence(const ParallelContext& context, const ActivationStash& stash) const;
  Tensor blockForward(ParallelContext& context, UnitId unit, const Tensor& x,
                      ActivationStash& stash);
  Tensor blockBackward(ParallelContext& context, UnitId unit, const Tensor& dy,
                       ActivationStash& stash);
  Tensor head(ParallelContext& context, const Tensor& x, ActivationStash& stash);
  Tensor headBackward(ParallelContext& context, const Tensor& dLogits, ActivationStash& stash);
  void embedBackward(const Tensor& dx, ActivationStash& stash);
  int64_t firstToken(ParallelContext& context) const;
  UnitId headUnit() const { return static_cast<UnitId>(blocks_.size()) + 1; }
  /// One weight for both ends, which is then used from the first to the last unit.
  bool shares() const { return tied_ && output_.tiedTo == nullptr; }
  const Parameter& outputMap() const { return shares() ? tokens_ : output_; }

  const bool learnedPositions_, tied_, sequence_;
  const bool again_;  // blocks are recomputed in backward
  const std::vector<int64_t> blockCosts_;
  const int64_t experts_;
  const bool dropsTokens_;
  Parameter tokens_, positions_, output_;
  std::vector<std::unique_ptr<Module>> blocks_;
  std::unique_ptr<Norm> finalNorm_;
};

}  // namespace tutti::parallel
