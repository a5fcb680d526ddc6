#pragma once

// Linear, LayerNorm and RmsNorm: the modules that have weights of their own.

#include "parallel/nn/module.h"

namespace tutti::parallel {

struct LinearOptions {
  std::string name;
  UnitId unit = 0;
  int64_t inputs = 0, outputs = 0;
  double deviation = 0.02;  ///< of the weight's first values; the bias starts at zero
  bool bias = true;
};

/// y [rows, outputs] = x [rows, inputs] * weight^T + bias, weight [outputs, inputs].
class Linear final : public Module {
 public:
  explicit Linear(const LinearOptions& options);
  Tensor forward(ParallelContext& context, const Tensor& x, Saved& saved) override;
  Tensor backward(ParallelContext& context, const Tensor& dy, Saved& saved) override;
  void declare(ParameterStore& store) override;

 private:
  const bool hasBias_;
  Parameter weight_, bias_;
};

struct NormOptions {
  std::string name;
  UnitId unit = 0;
  int64_t width = 0;
  double epsilon = 1e-5;
};

/// What comes before a branch of a block, and before the output map.
class Norm : public Module {
 public:
  using Module::backward;
  /// As backward, with `residual` added to the result: the gradient that goes around a branch. No
  /// data: nothing is added.
  virtual Tensor backward(ParallelContext& context, const Tensor& dy, const Tensor& residual,
                          Saved& saved) = 0;
  Tensor backward(ParallelContext& context, const Tensor& dy, Saved& saved) final {
    return backward(context, dy, Tensor{}, saved);
  }
};

/// Each row to mean 0 and variance 1, then times weight plus bias.
class LayerNorm final : public Norm {
 public:
  explicit LayerNorm(const NormOptions& options);
  using Norm::backward;
  Tensor forward(ParallelContext& context, const Tensor& x, Saved& saved) override;
  Tensor backward(ParallelContext& context, const Tensor& dy, const Tensor& residual,
                  Saved& saved) override;
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
  Tensor forward(ParallelContext& context, const Tensor& x, Saved& saved) override;
  Tensor backward(ParallelContext& context, const Tensor& dy, const Tensor& residual,
                  Saved& saved) override;
  void declare(ParameterStore& store) override;

 private:
  const double epsilon_;
  Parameter weight_;
};

}  // namespace tutti::parallel
