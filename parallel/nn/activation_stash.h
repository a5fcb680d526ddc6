#pragma once

// ActivationStash: what forward leaves for backward, and backward for the weight gradients. One
// object serves one (chunk of the model, micro-batch in flight).
//
// Three lifetimes: scratch (in ParallelContext) ends with the call; `untilBackward` ends with the
// module's backward; `untilWeights` ends when the weight gradients are computed, which may be much
// later (a zero-bubble schedule defers them). Forward pushes, backward pops in exact reverse.

#include <vector>

#include "parallel/nn/key_values.h"
#include "parallel/nn/small_function.h"
#include "parallel/store/parameter.h"
#include "parallel/tensor/arena.h"

namespace tutti::parallel {

struct ParallelContext;

/// A weight gradient to be computed: now, or later in the order in which it was appended.
struct WeightWork {
  SmallFunction<void(ParallelContext&, int microBatch)> run;
};

class ActivationStash {
 public:
  explicit ActivationStash(const Backing& backing = {})
      : untilBackward("until-backward", backing), untilWeights("until-weights", backing) {}

  Arena untilBackward, untilWeights;
  std::vector<WeightWork> work;
  Shape tokens;        ///< [batch, positions] of the micro-batch that this rank has (beginTokens)
  int64_t length = 0;  ///< of its sequences, whoever has them
  KeyValues* before = nullptr;  ///< of tokens that the micro-batch, one sequence, goes on from
  int microBatch = 0;           ///< index on this rank, within the gradient round
  bool deferWeights =
      false;  ///< keep the work until drain(); otherwise each unit's runs at its end

  void push(const Tensor& tensor) { stack_.push_back(tensor); }
  Tensor pop();

  /// Where forward is, to go back to.
  struct Place {
    size_t pushed = 0;
    Arena::Mark backward = {}, weights = {};
  };
  Place place() const { return {stack_.size(), untilBackward.mark(), untilWeights.mark()}; }
  /// Forgets what was pushed since, and gives back the memory but that of `result`, whose new place
  /// it returns.
  Tensor forgetSince(const Place& place, const Tensor& result);

  /// Opens a unit's span in forward. closeUnit() ends it in backward: unless weights are deferred
  /// it runs the unit's work, tells the store, and gives back all that the unit allocated in
  /// forward and backward except `dx`, whose new place it returns.
  void openUnit(UnitId unit);
  Tensor closeUnit(ParallelContext& context, const Tensor& dx);

  /// Runs deferred work and reports its units, in order.
  void drain(ParallelContext& context);
  /// Back to empty, with nothing before: for a forward without backward, and after drain() when
  /// weights were deferred.
  void reset();
  bool empty() const;
  /// Whether backward has popped and closed all, and the work is done.
  bool ended() const { return stack_.empty() && open_.empty() && work.empty(); }

 private:
  struct Span {
    UnitId unit;
    Arena::Mark backward, weights;
  };
  struct UnitEnd {
    size_t work;  ///< all work before this index belongs to `unit` or an earlier one
    UnitId unit;
  };
  std::vector<Tensor> stack_;
  std::vector<Span> open_;
  std::vector<UnitEnd> ended_;
};

}  // namespace tutti::parallel
