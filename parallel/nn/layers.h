#pragma once

// ColumnLinear, RowLinear, LayerNorm and RmsNorm: the modules that have weights of their own. What
// they exchange where a model is cut over ranks is drawn in nn/tensor_parallel.h.

#include <vector>

#include "parallel/nn/module.h"

namespace tutti::parallel {

inline constexpr double kDeviation = 0.02;  ///< of weights' first values: GPT-2's

struct ColumnLinearOptions {
  struct Map {
    std::string name;
    int64_t outputs = 0;
    /// That cut the outputs; over those of kTensorAxes that are missing several ranks have the same
    /// ones, and each a part of their gradient.
    AxisList axes = {Axis::Tensor, Axis::Rep};
  };
  std::vector<Map> maps;
  const BranchPurposes& purposes;  ///< a reference, so that nobody leaves it out
  UnitId unit = 0;
  int64_t inputs = 0;
  double deviation = kDeviation;  ///< of the weights' first values; biases start at zero
  bool bias = true;
  bool sequenceParallel = false;  ///< x is this rank's rows
  int owner = -1;                 ///< the weights' (Parameter::owner): nothing is cut
};

/// Maps of one input, side by side, that begin a branch: y [tokens, outputs of all maps that are
/// this rank's] = x [rows, inputs] * [weight^T | weight^T | ...] + bias, weights [outputs, inputs].
class ColumnLinear final : public Module {
 public:
  explicit ColumnLinear(const ColumnLinearOptions& options);
  Tensor forward(ParallelContext& context, const Tensor& x, ActivationStash& stash) override {
    return forward(context, x, stash, Activation::None);
  }
  /// With what comes behind it: of one map gelu(y), of two y of the first one as the gate of the
  /// other. y is kept for the activation's backward(), which is RowLinear's.
  Tensor forward(ParallelContext& context, const Tensor& x, ActivationStash& stash,
                 Activation activation);
  Tensor backward(ParallelContext& context, const Tensor& dy, ActivationStash& stash) override;
  void declare(ParameterStore& store) override;

 private:
  struct Map {
    Parameter weight, bias;
  };
  const int64_t inputs_;
  const bool hasBias_, sequence_;
  const BranchPurposes purposes_;
  std::vector<Map> maps_;
};

struct RowLinearOptions {
  std::string name;
  const BranchPurposes& purposes;
  UnitId unit = 0;
  int64_t inputs = 0, outputs = 0;
  double deviation = kDeviation;  ///< of the weight's first values; the bias starts at zero
  bool bias = true;
  bool sequenceParallel = false;  ///< y is this rank's rows
  int owner = -1;                 ///< the weights': nothing is cut
};

/// What is around a norm's result: it is added to what goes past it, the residual stream.
class Branch : public Module {
 public:
  using Module::forward;
  /// As forward, with `residual` added to the result. No data: nothing is added.
  virtual Tensor forward(ParallelContext& context, const Tensor& x, const Tensor& residual,
                         ActivationStash& stash) = 0;
  Tensor forward(ParallelContext& context, const Tensor& x, ActivationStash& stash) final {
    return forward(context, x, Tensor{}, stash);
  }
};

/// The map that ends a branch: y [rows, outputs] = x [tokens, this rank's inputs] * weight^T, added
/// up over the ranks, + bias; weight [outputs, inputs].
class RowLinear final : public Branch {
 public:
  explicit RowLinear(const RowLinearOptions& options);
  using Branch::forward;
  Tensor forward(ParallelContext& context, const Tensor& x, const Tensor& residual,
                 ActivationStash& stash) override;
  Tensor backward(ParallelContext& context, const Tensor& dy, ActivationStash& stash) override {
    return backward(context, dy, stash, Activation::None);
  }
  /// With what came before it: `activation`, GeluBackward or SwiGluBackward, which gives the
  /// gradient of what ColumnLinear's forward() has kept.
  Tensor backward(ParallelContext& context, const Tensor& dy, ActivationStash& stash,
                  Activation activation);
  void declare(ParameterStore& store) override;

 private:
  const bool hasBias_, sequence_;
  const BranchPurposes purposes_;
  Parameter weight_, bias_;
};

struct NormOptions {
  std::string name;
  UnitId unit = 0;
  int64_t width = 0;
  double epsilon = 1e-5;
  bool sequenceParallel = false;  ///< x is this rank's rows
  int owner = -1;                 ///< the weights'
};

/// What comes before a branch of a block, and before the output map.
class Norm : public Module {
 public:
  using Module::backward;
  using Module::forward;
  /// As forward, with `residual` added to x first, where that lies. No data: nothing is added.
  virtual Tensor forward(ParallelContext& context, const Tensor& x, const Tensor& residual,
                         ActivationStash& stash) = 0;
  Tensor forward(ParallelContext& context, const Tensor& x, ActivationStash& stash) final {
    return forward(context, x, Tensor{}, stash);
  }
  /// As backward, with `residual` added to the result: the gradient that goes around a branch. No
  /// data: nothing is added.
  virtual Tensor backward(ParallelContext& context, const Tensor& dy, const Tensor& residual,
                          ActivationStash& stash) = 0;
  Tensor backward(ParallelContext& context, const Tensor& dy, ActivationStash& stash) final {
    return backward(context, dy, Tensor{}, stash);
  }
};

/// Each row to mean 0 and variance 1, then times weight plus bias.
class LayerNorm final : public Norm {
 public:
  explicit LayerNorm(const NormOptions& options);
  using Norm::backward;
  using Norm::forward;
  Tensor forward(ParallelContext& context, const Tensor& x, const Tensor& residual,
                 ActivationStash& stash) override;
  Tensor backward(ParallelContext& context, const Tensor& dy, const Tensor& residual,
                  ActivationStash& stash) override;
  void declare(ParameterStore& store) override;

 private:
  const double epsilon_;
  Parameter weight_, bias_;
};

/// Each row to mean square 1, then times weight.
class RmsNorm final : public Norm {
 public:
  explicit RmsNorm(const NormOptions& options);
  using Norm::backward;
  using Norm::forward;
  Tensor forward(ParallelContext& context, const Tensor& x, const Tensor& residual,
                 ActivationStash& stash) override;
  Tensor backward(ParallelContext& context, const Tensor& dy, const Tensor& residual,
                  ActivationStash& stash) override;
  void declare(ParameterStore& store) override;

 private:
  const double epsilon_;
  Parameter weight_;
};

}  // namespace tutti::parallel
