#pragma once

// Linear and LayerNorm: the modules that have weights of their own.

#include "parallel/nn/module.h"

namespace tutti::parallel {

struct LinearOptions {
  std::string name;
  UnitId unit = 0;
  int64_t inputs = 0, outputs = 0;
  double deviation = 0.02;  ///< of the weight's first values; the bias starts at zero
};

/// y [rows, outputs] = x [rows, inputs] * weight^T + bias, weight [outputs, inputs].
class Linear final : public Module {
 public:
  explicit Linear(const LinearOptions& options);
  Tensor forward(ParallelContext& context, const Tensor& x, Saved& saved) override;
  Tensor backward(ParallelContext& context, const Tensor& dy, Saved& saved) override;
  void declare(ParameterStore& store) override;

 private:
  Parameter weight_, bias_;
};

struct LayerNormOptions {
  std::string name;
  UnitId unit = 0;
  int64_t width = 0;
};

/// Each row to mean 0 and variance 1, then times weight plus bias.
class LayerNorm final : public Module {
 public:
  explicit LayerNorm(const LayerNormOptions& options);
  Tensor forward(ParallelContext& context, const Tensor& x, Saved& saved) override;
  Tensor backward(ParallelContext& context, const Tensor& dy, Saved& saved) override;
  /// As backward, with `residual` added to the result: the gradient that goes around a branch.
  Tensor backward(ParallelContext& context, const Tensor& dy, const Tensor& residual, Saved& saved);
  void declare(ParameterStore& store) override;

 private:
  Parameter weight_, bias_;
};

}  // namespace tutti::parallel
