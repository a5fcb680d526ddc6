#include "parallel/samples/sleeper.h"

#include <chrono>
#include <thread>

namespace tutti::parallel {

namespace {

Tensor zeros(ParallelContext& context, ActivationStash& stash, const Shape& shape) {
  const Tensor tensor = stash.untilWeights.allocate(DType::Float32, shape);
  context.kernels.fillZero(tensor);
  return tensor;
}

}  // namespace

Sleeper::Sleeper(int layers, int ranks, const Costs& costs)
    : costs_(costs), share_(layers / ranks) {
  for (UnitId unit = 0; unit < layers + 2; ++unit)
    parameters_.push_back({.name = message("layers.", unit), .global = {1}, .unit = unit});
}

Tensor Sleeper::forward(ParallelContext& context, UnitRange part, const Tensor&,
                        ActivationStash& stash) {
  Shape shape = shapeBetween(context, stash.tokens);
  for (UnitId unit = part.begin; unit < part.end; ++unit) {
    stash.openUnit(unit);
    if (unit + 1 == unitCount()) shape = {stash.tokens[0], stash.tokens[1], vocabulary()};
    sleep(context.mesh, unit, costs_.forward);
  }
  return zeros(context, stash, shape);
}

Tensor Sleeper::backward(ParallelContext& context, UnitRange part, const Tensor&,
                         ActivationStash& stash) {
  for (UnitId unit = part.end - 1; unit >= part.begin; --unit) {
    sleep(context.mesh, unit, costs_.inputGradients);
    stash.work.push_back({[this, unit](ParallelContext& c, int microBatch) {
      sleep(c.mesh, unit, costs_.weightGradients);
      const GradientSlot slot =
          c.store.gradient(parameters_[static_cast<size_t>(unit)], microBatch);
      if (slot.beta == 0) c.kernels.fillZero(slot.buffer);
    }});
    stash.closeUnit(context, {});
  }
  return part.begin == 0 ? Tensor{} : zeros(context, stash, shapeBetween(context, stash.tokens));
}

void Sleeper::declare(ParameterStore& store) {
  for (Parameter& parameter : parameters_) store.add(parameter);
}

std::vector<int64_t> Sleeper::unitCosts() const {
  std::vector<int64_t> costs(parameters_.size(), 1);
  costs.front() = costs.back() = 0;
  return costs;
}

Shape Sleeper::shapeBetween(const ParallelContext&, const Shape& tokens) const {
  return {tokens.count(), 1};
}

/// Behind what the device has to do before it, as to wait for what another rank sends.
void Sleeper::sleep(const DeviceMesh& mesh, UnitId unit, int64_t milliseconds) {
  if (!sleeps_ || unit == 0 || unit + 1 == unitCount()) return;
  mesh.finish();
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::microseconds(1000 * milliseconds / share_));
  const auto end = std::chrono::steady_clock::now();
  slept_ += std::chrono::duration<double, std::milli>(end - begin).count();
}

}  // namespace tutti::parallel
