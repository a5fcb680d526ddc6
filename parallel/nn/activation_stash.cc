#include "parallel/nn/activation_stash.h"

#include "parallel/nn/module.h"

namespace tutti::parallel {

Tensor ActivationStash::pop() {
  ensure(!stack_.empty(), "backward pops more than forward pushed");
  const Tensor top = stack_.back();
  stack_.pop_back();
  return top;
}

Tensor ActivationStash::forgetSince(const Place& place, const Tensor& result) {
  stack_.resize(place.pushed);
  untilBackward.rewind(place.backward);
  return untilWeights.retain(place.weights, result);
}

void ActivationStash::openUnit(UnitId unit) {
  open_.push_back({unit, untilBackward.mark(), untilWeights.mark()});
}

Tensor ActivationStash::closeUnit(ParallelContext& context, const Tensor& dx) {
  ensure(!open_.empty(), "a unit was closed that was not opened");
  const Span span = open_.back();
  open_.pop_back();
  ended_.push_back({work.size(), span.unit});
  untilBackward.rewind(span.backward);
  if (deferWeights) return dx;
  drain(context);
  if (dx.data != nullptr) return untilWeights.retain(span.weights, dx);
  untilWeights.rewind(span.weights);
  return dx;
}

void ActivationStash::drain(ParallelContext& context) {
  size_t next = 0;
  for (const UnitEnd& end : ended_) {
    inSequence(context.kernels, callsKernelsAlone(context), [&] {
      for (; next < end.work; ++next) work[next].run(context, microBatch);
    });
    context.store.weightsDone(end.unit, microBatch);
  }
  ensure(next == work.size(), work.size() - next, " weight gradients belong to no closed unit");
  work.clear();
  ended_.clear();
}

void ActivationStash::reset() {
  ensure(work.empty(), work.size(), " weight gradients would be lost");
  before = nullptr;
  stack_.clear();
  open_.clear();
  untilBackward.rewind({});
  untilWeights.rewind({});
}

bool ActivationStash::empty() const {
  return ended() && untilBackward.usedBytes() == 0 && untilWeights.usedBytes() == 0;
}

}  // namespace tutti::parallel
