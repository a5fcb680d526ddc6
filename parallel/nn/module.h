#pragma once

// Module: a part of a model with an explicit forward and backward; there is no tape. Every
// computation and every collective of training is visible in the code of some module.
//
// Between modules an activation is a matrix, [tokens, width], the sequences of a micro-batch one
// after the other; under context parallelism each rank has some positions of these
// (nn/context_parallel.h), and under sequence parallelism some of the rows that are then left
// (nn/tensor_parallel.h).
//
// A module declares its Parameters and holds no values. forward() allocates its result from
// saved.untilWeights (it is the next layer's input, which that layer's weight gradient needs) and
// pushes what backward will pop. backward() takes the gradient of the result, which must stay
// untouched until the weight work has run, returns that of the input, allocated from
// saved.untilWeights, and appends WeightWork.

#include <string>
#include <vector>

#include "parallel/kernels/kernels.h"
#include "parallel/mesh/device_mesh.h"
#include "parallel/nn/activation_stash.h"
#include "parallel/nn/context_parallel.h"
#include "parallel/nn/expert_parallel.h"
#include "parallel/nn/tensor_parallel.h"
#include "parallel/store/parameter_store.h"

namespace tutti::parallel {

/// All that modules use besides their arguments: there are no globals. One for each rank.
struct ParallelContext {
  DeviceMesh& mesh;
  Kernels& kernels;
  ParameterStore& store;
  Arena& scratch;
  TensorParallel tensor{mesh};
  ContextParallel sequences{mesh};
  ExpertParallel experts{mesh};
};

class Module {
 public:
  virtual ~Module() = default;
  virtual Tensor forward(ParallelContext& context, const Tensor& x, ActivationStash& stash) = 0;
  virtual Tensor backward(ParallelContext& context, const Tensor& dy, ActivationStash& stash) = 0;
  /// Adds this module's parameters to `store`, in the order of forward. Throws InvalidArgument when
  /// the store's mesh does not suit the module.
  virtual void declare(ParameterStore& store) = 0;
};

/// What forward does not keep, so that backward has to compute it again (Korthikanti et al.,
/// "Reducing Activation Recomputation in Large Transformer Models"). Bits do not depend on it.
enum class Recompute : uint8_t {
  None,
  Attention,  ///< selective: what attention gives, from queries, keys and values
  Block       ///< full: all of a block, from what it was given
};

/// A micro-batch of token ids [batch, context] comes.
inline void beginTokens(const ParallelContext& context, const Shape& tokenIds,
                        ActivationStash& stash) {
  stash.tokens = context.sequences.own(tokenIds);
  stash.length = tokenIds[1];
}

/// int32: where this rank's tokens of the micro-batch are in their sequences; no data: 0, 1, 2, ...
inline Tensor positionsOf(ParallelContext& context, const ActivationStash& stash) {
  return stash.before != nullptr ? stash.before->positions(context.mesh, stash.length)
                                 : context.sequences.positions(stash.length);
}

/// Whether modules without experts call nothing but kernels: there are no collectives between them.
inline bool callsKernelsAlone(const ParallelContext& context) {
  return context.mesh.longAxes(kTensorAxes | AxisSet{Axis::Context, Axis::Expert}).empty();
}

/// Consecutive units of a model, [begin, end).
struct UnitRange {
  UnitId begin = 0, end = 0;
  bool operator==(const UnitRange&) const = default;
};

/// A module from int32 token ids [batch, context] to logits [batch, own positions, vocabulary],
/// which are cut by the last dimension where their layout says so, and may have gaps between rows,
/// all of one length. Token ids have no gradient:
/// backward returns an empty tensor.
///
/// A part of its units can be computed with by itself: what it is given is what the unit before it
/// gives, and its backward takes and returns the gradients of that. Before it beginTokens() says
/// what the micro-batch is.
///
/// Where `saved.before` is set the token ids [1, new] come behind those that it has seen, there is
/// no backward, and logits are [1, 1, vocabulary], those of the last token.
class Model : public Module {
 public:
  using Module::backward;
  using Module::forward;
  virtual int64_t vocabulary() const = 0;
  /// Of which the first one embeds tokens, and the last one gives logits.
  virtual UnitId unitCount() const = 0;
  /// What each unit takes to compute with, in proportion to the others.
  virtual std::vector<int64_t> unitCosts() const = 0;
  /// Whether a token's keys and values stay what they are when others come behind it, so that
  /// forward can go on from them.
  virtual bool goesOn() const { return false; }
  /// Of all blocks together: what RouterTally::loads has.
  virtual size_t expertCount() const { return 0; }
  virtual Tensor forward(ParallelContext& context, UnitRange part, const Tensor& x,
                         ActivationStash& stash) = 0;
  virtual Tensor backward(ParallelContext& context, UnitRange part, const Tensor& dy,
                          ActivationStash& stash) = 0;
  /// Of what one unit gives to the next on this rank, in a micro-batch of tokens [batch, context].
  virtual Shape shapeBetween(const ParallelContext& context, const Shape& tokens) const = 0;

  Tensor forward(ParallelContext& context, const Tensor& tokenIds, ActivationStash& stash) final {
    beginTokens(context, tokenIds.shape, stash);
    return forward(context, {0, unitCount()}, tokenIds, stash);
  }
  Tensor backward(ParallelContext& context, const Tensor& dLogits, ActivationStash& stash) final {
    return backward(context, {0, unitCount()}, dLogits, stash);
  }
};

}  // namespace tutti::parallel
