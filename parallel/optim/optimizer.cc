#include "parallel/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace tutti::parallel {

namespace {

// PyTorch's names.
const std::string kMoments[] = {"exp_avg", "exp_avg_sq"};
const std::string kVelocity[] = {"momentum_buffer"};

class AdamWOptimizer final : public Optimizer {
 public:
  explicit AdamWOptimizer(const AdamWOptions& options) : options_(options) {}
  std::span<const std::string> stateNames() const override { return kMoments; }

  void beginStep(int64_t step, double learningRate) override {
    learningRate_ = learningRate;
    correction1_ = 1 - std::pow(options_.beta1, static_cast<double>(step));
    correction2_ = 1 - std::pow(options_.beta2, static_cast<double>(step));
  }

  void update(std::span<const UpdateArgs> all, double gradientScale, Kernels& kernels) override {
    tensors_.clear();
    for (const UpdateArgs& each : all)
      tensors_.push_back({.weight = each.weight,
                          .gradient = each.gradient,
                          .first = each.state[0],
                          .second = each.state[1],
                          .weightDecay = each.decay ? options_.weightDecay : 0,
                          .copy = each.copy});
    kernels.adamW({.tensors = tensors_,
                   .gradientScale = gradientScale,
                   .learningRate = learningRate_,
                   .beta1 = options_.beta1,
                   .beta2 = options_.beta2,
                   .epsilon = options_.epsilon,
                   .correction1 = correction1_,
                   .correction2 = correction2_});
  }

 private:
  AdamWOptions options_;
  double learningRate_ = 0, correction1_ = 1, correction2_ = 1;
  std::vector<AdamWTensors> tensors_;  // of the last update, whose memory the next one takes
};

class SgdOptimizer final : public Optimizer {
 public:
  explicit SgdOptimizer(const SgdOptions& options) : options_(options) {}
  std::span<const std::string> stateNames() const override {
    return std::span(kVelocity).first(options_.momentum > 0 ? 1 : 0);
  }
  void beginStep(int64_t, double learningRate) override { learningRate_ = learningRate; }

  void update(std::span<const UpdateArgs> all, double gradientScale, Kernels& kernels) override {
    tensors_.clear();
    for (const UpdateArgs& each : all)
      tensors_.push_back({.weight = each.weight,
                          .gradient = each.gradient,
                          .velocity = each.state.empty() ? Tensor{} : each.state[0],
                          .weightDecay = each.decay ? options_.weightDecay : 0});
    kernels.sgd({.tensors = tensors_,
                 .gradientScale = gradientScale,
                 .learningRate = learningRate_,
                 .momentum = options_.momentum});
    copies_.clear();
    for (const UpdateArgs& each : all)
      if (each.copy.data != nullptr) copies_.push_back({each.weight, each.copy});
    kernels.copyAll(copies_);
  }

 private:
  SgdOptions options_;
  double learningRate_ = 0;
  std::vector<SgdTensors> tensors_;  // as AdamW's
  std::vector<TensorCopy> copies_;
};

}  // namespace

std::unique_ptr<Optimizer> makeAdamW(const AdamWOptions& options) {
  return std::make_unique<AdamWOptimizer>(options);
}

std::unique_ptr<Optimizer> makeSgd(const SgdOptions& options) {
  return std::make_unique<SgdOptimizer>(options);
}

double CosineSchedule::at(int64_t step) const {
  if (step <= warmupSteps)
    return peak * static_cast<double>(step) / static_cast<double>(warmupSteps);
  const double length = static_cast<double>(std::max<int64_t>(1, totalSteps - warmupSteps));
  const double progress = std::min(1.0, static_cast<double>(step - warmupSteps) / length);
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return peak * (finalFraction + (1 - finalFraction) * cosine);
}

}  // namespace tutti::parallel
