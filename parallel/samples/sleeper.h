#pragma once

// Sleeper: a model whose layers take their time and give zeros, so that as many stages of a
// pipeline as there are fit on any machine. Of a rank with a GPU they sleep on the host too, so
// that ranks that share one do not wait for each other: each begins when the GPU has its input, and
// what it gives is enqueued behind that.

#include <vector>

#include "parallel/nn/module.h"
#include "parallel/pipeline/costs.h"

namespace tutti::parallel {

/// Layers between a first unit and a last one, which take no time.
class Sleeper final : public Model {
 public:
  using Model::backward;
  using Model::forward;
  /// `layers` on `ranks` ranks, which take `costs` together on each, in milliseconds.
  Sleeper(int layers, int ranks, const Costs& costs);

  Tensor forward(ParallelContext& context, UnitRange part, const Tensor& x,
                 ActivationStash& stash) override;
  Tensor backward(ParallelContext& context, UnitRange part, const Tensor& dy,
                  ActivationStash& stash) override;
  void declare(ParameterStore& store) override;
  int64_t vocabulary() const override { return 256; }
  UnitId unitCount() const override { return static_cast<UnitId>(parameters_.size()); }
  std::vector<int64_t> unitCosts() const override;
  Shape shapeBetween(const ParallelContext& context, const Shape& tokens) const override;
  /// Whether its layers sleep, as they do from the beginning, or take no time.
  void setSleeps(bool sleeps) { sleeps_ = sleeps; }
  /// How long its layers have slept, in milliseconds: a little longer than they are asked to.
  double slept() const { return slept_; }

 private:
  void sleep(const DeviceMesh& mesh, UnitId unit, int64_t milliseconds);

  const Costs costs_;
  const int share_;  // layers of a rank
  bool sleeps_ = true;
  double slept_ = 0;
  std::vector<Parameter> parameters_;
};

}  // namespace tutti::parallel
