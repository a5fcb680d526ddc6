#pragma once

// Optimizers: how weights move, given their gradients. The ParameterStore owns the state and calls
// update() with all parameters, or shards of them, that are ready: a GPU updates them together.

#include <memory>
#include <span>
#include <string>

#include "parallel/kernels/kernels.h"

namespace tutti::parallel {

/// What an update sees of one parameter. All tensors have the same shape and, but for the copy, one
/// type.
struct UpdateArgs {
  Tensor weight, gradient;
  std::span<const Tensor> state;  ///< one for each of stateNames(), zero before the first update
  bool decay = true;              ///< weight decay applies: matrices yes, biases and norms no
  Tensor copy{};  ///< that shape, of any type: the weight behind the update; no data: none
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Of the tensors that it keeps for each parameter; checkpoints have them under these names.
  virtual std::span<const std::string> stateNames() const = 0;
  int stateCount() const { return static_cast<int>(stateNames().size()); }
  /// Once before the updates of a step; steps count from 1.
  virtual void beginStep(int64_t step, double learningRate) = 0;
  /// Of as many parameters as there are: writes each weight, its state and, where there is one, its
  /// copy. Gradients are multiplied by `gradientScale`, which is from
  /// clipping, first.
  virtual void update(std::span<const UpdateArgs> all, double gradientScale, Kernels& kernels) = 0;
};

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weightDecay = 0.1;
};
std::unique_ptr<Optimizer> makeAdamW(const AdamWOptions& options);

struct SgdOptions {
  double weightDecay = 0;
  double momentum = 0;  ///< 0: no velocity is kept
};
std::unique_ptr<Optimizer> makeSgd(const SgdOptions& options);

/// Linear warm-up to `peak` over `warmupSteps`, then half a cosine down to `peak * finalFraction`
/// at `totalSteps`. Steps count from 1.
struct CosineSchedule {
  double peak = 1e-3;
  int64_t warmupSteps = 0;
  int64_t totalSteps = 1;
  double finalFraction = 0.1;

  double at(int64_t step) const;
};

}  // namespace tutti::parallel
