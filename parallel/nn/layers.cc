#include "parallel/nn/layers.h"

namespace tutti::parallel {

namespace {

/// The shape of `x` with another last extent.
Shape withLast(Shape shape, int64_t last) {
  shape[-1] = last;
  return shape;
}

}  // namespace

Linear::Linear(const LinearOptions& o)
    : hasBias_(o.bias),
      weight_{.name = o.name + ".weight",
              .global = {o.outputs, o.inputs},
              .init = {Init::Normal, o.deviation},
              .unit = o.unit},
      bias_{.name = o.name + ".bias", .global = {o.outputs}, .unit = o.unit} {}

void Linear::declare(ParameterStore& store) {
  store.add(weight_);
  if (hasBias_) store.add(bias_);
}

Tensor Linear::forward(ParallelContext& context, const Tensor& x, Saved& saved) {
  const Tensor y = saved.untilWeights.allocate(x.type, withLast(x.shape, weight_.global[0]));
  context.kernels.gemm(
      {.a = x.matrix(), .b = context.store.weight(weight_), .c = y.matrix(), .transposeB = true});
  if (hasBias_) context.kernels.addBias(context.store.weight(bias_), y);
  saved.push(x);
  return y;
}

Tensor Linear::backward(ParallelContext& context, const Tensor& dy, Saved& saved) {
  const Tensor x = saved.pop();
  const Tensor dx = saved.untilWeights.allocate(x.type, x.shape);
  context.kernels.gemm({.a = dy.matrix(), .b = context.store.weight(weight_), .c = dx.matrix()});
  saved.work.push_back({[this, x, dy](ParallelContext& c, int microBatch) {
    const GradientSlot weight = c.store.gradient(weight_, microBatch);
    c.kernels.gemm({.a = dy.matrix(),
                    .b = x.matrix(),
                    .c = weight.buffer,
                    .transposeA = true,
                    .beta = weight.beta});
    if (!hasBias_) return;
    const GradientSlot bias = c.store.gradient(bias_, microBatch);
    c.kernels.biasGradient(dy, bias.buffer, bias.beta);
  }});
  return dx;
}

LayerNorm::LayerNorm(const NormOptions& o)
    : epsilon_(o.epsilon),
      weight_{.name = o.name + ".weight", .global = {o.width}, .init = {Init::One}, .unit = o.unit},
      bias_{.name = o.name + ".bias", .global = {o.width}, .unit = o.unit} {}

void LayerNorm::declare(ParameterStore& store) {
  store.add(weight_);
  store.add(bias_);
}

Tensor LayerNorm::forward(ParallelContext& context, const Tensor& x, Saved& saved) {
  const Tensor y = saved.untilWeights.allocate(x.type, x.shape);
  const Shape rows{x.count() / x.shape[-1]};
  const Tensor mean = saved.untilWeights.allocate(statisticsType(x.type), rows);
  const Tensor rstd = saved.untilWeights.allocate(statisticsType(x.type), rows);
  context.kernels.layerNorm({.x = x,
                             .weight = context.store.weight(weight_),
                             .bias = context.store.weight(bias_),
                             .y = y,
                             .mean = mean,
                             .rstd = rstd,
                             .epsilon = epsilon_});
  saved.push(x);
  saved.push(mean);
  saved.push(rstd);
  return y;
}

Tensor LayerNorm::backward(ParallelContext& context, const Tensor& dy, const Tensor& residual,
                           Saved& saved) {
  const Tensor rstd = saved.pop(), mean = saved.pop(), x = saved.pop();
  const Tensor dx = saved.untilWeights.allocate(x.type, x.shape);
  context.kernels.layerNormBackward({.dy = dy,
                                     .x = x,
                                     .weight = context.store.weight(weight_),
                                     .mean = mean,
                                     .rstd = rstd,
                                     .residual = residual,
                                     .dx = dx});
  saved.work.push_back({[this, x, dy, mean, rstd](ParallelContext& c, int microBatch) {
    const GradientSlot weight = c.store.gradient(weight_, microBatch);
    const GradientSlot bias = c.store.gradient(bias_, microBatch);
    c.kernels.layerNormWeights({.dy = dy,
                                .x = x,
                                .mean = mean,
                                .rstd = rstd,
                                .dWeight = weight.buffer,
                                .dBias = bias.buffer,
                                .betaWeight = weight.beta,
                                .betaBias = bias.beta});
  }});
  return dx;
}

RmsNorm::RmsNorm(const NormOptions& o)
    : epsilon_(o.epsilon),
      weight_{
          .name = o.name + ".weight", .global = {o.width}, .init = {Init::One}, .unit = o.unit} {}

void RmsNorm::declare(ParameterStore& store) { store.add(weight_); }

Tensor RmsNorm::forward(ParallelContext& context, const Tensor& x, Saved& saved) {
  const Tensor y = saved.untilWeights.allocate(x.type, x.shape);
  const Tensor rstd =
      saved.untilWeights.allocate(statisticsType(x.type), {x.count() / x.shape[-1]});
  context.kernels.rmsNorm(
      {.x = x, .weight = context.store.weight(weight_), .y = y, .rstd = rstd, .epsilon = epsilon_});
  saved.push(x);
  saved.push(rstd);
  return y;
}

Tensor RmsNorm::backward(ParallelContext& context, const Tensor& dy, const Tensor& residual,
                         Saved& saved) {
  const Tensor rstd = saved.pop(), x = saved.pop();
  const Tensor dx = saved.untilWeights.allocate(x.type, x.shape);
  context.kernels.rmsNormBackward({.dy = dy,
                                   .x = x,
                                   .weight = context.store.weight(weight_),
                                   .rstd = rstd,
                                   .residual = residual,
                                   .dx = dx});
  saved.work.push_back({[this, x, dy, rstd](ParallelContext& c, int microBatch) {
    const GradientSlot weight = c.store.gradient(weight_, microBatch);
    c.kernels.rmsNormWeights(
        {.dy = dy, .x = x, .rstd = rstd, .dWeight = weight.buffer, .beta = weight.beta});
  }});
  return dx;
}

}  // namespace tutti::parallel
