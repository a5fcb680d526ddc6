#pragma once

// ParallelBlock: a block whose two branches both read what the block was given, and so do not wait
// for each other (Wang and Komatsuzaki, "GPT-J-6B"; Chowdhery et al., "PaLM"):
//
//   x --+-- norm -- attention -- + --> y
//       +-- norm -- MLP -------- +
//       +----------------------- +
//
// They can be placed on two ranks of tensor parallelism: each computes one of them whole, and has
// its weights alone. Both have x; forward adds up what the branches give, and backward their input
// gradients, by one AllReduce each, where cut branches take two. What is around the blocks is cut
// over the two ranks as ever.

#include "parallel/nn/transformer.h"

namespace tutti::parallel {

/// Where the operators of a block are that do not depend on each other.
enum class Branches : uint8_t {
  InTurn,    ///< they do: the MLP reads what attention gave
  Parallel,  ///< on all ranks of tensor parallelism, cut
  Placed     ///< attention on the first, the MLP on the last of two
};

class ParallelBlock final : public Module {
 public:
  /// `placed`: the parts of attention have owner 0, those of the MLP owner 1, and none rows of
  /// sequence parallelism.
  ParallelBlock(TransformerBlock::Parts parts, bool placed)
      : parts_(std::move(parts)), placed_(placed) {}
  Tensor forward(ParallelContext& context, const Tensor& x, ActivationStash& stash) override;
  Tensor backward(ParallelContext& context, const Tensor& dy, ActivationStash& stash) override;
  void declare(ParameterStore& store) override;

 private:
  struct Here {
    bool attention, mlp;
  };
  Here here(const ParallelContext& context) const;
  Tensor branches(ParallelContext& context, const Tensor& x, ActivationStash& stash);
  Tensor branchGradients(ParallelContext& context, const Tensor& dy, ActivationStash& stash);
  Tensor addUp(ParallelContext& context, Purpose purpose, const Tensor& own,
               const Tensor& residual) const;

  TransformerBlock::Parts parts_;
  const bool placed_;
};

}  // namespace tutti::parallel
