#include "parallel/nn/layers.h"

namespace tutti::parallel {

ColumnLinear::ColumnLinear(const ColumnLinearOptions& o)
    : inputs_(o.inputs), hasBias_(o.bias), sequence_(o.sequenceParallel), purposes_(o.purposes) {
  for (const ColumnLinearOptions::Map& map : o.maps) {
    Layout layout;
    if (o.owner < 0) layout.dims[0] = map.axes;
    const PartialGradient partial(o.owner < 0 ? kTensorAxes.without(layout.axes()) : AxisSet{},
                                  Purpose::SharedHeadGradientSum);
    maps_.push_back({.weight = {.name = map.name + ".weight",
                                .global = {map.outputs, o.inputs},
                                .init = {Init::Normal, o.deviation},
                                .layout = layout,
                                .gradientPartial = partial,
                                .unit = o.unit,
                                .owner = o.owner},
                     .bias = {.name = map.name + ".bias",
                              .global = {map.outputs},
                              .layout = layout,
                              .gradientPartial = partial,
                              .unit = o.unit,
                              .owner = o.owner}});
  }
}

void ColumnLinear::declare(ParameterStore& store) {
  for (Map& map : maps_) store.add(map.weight);
  if (!hasBias_) return;
  for (Map& map : maps_) store.add(map.bias);
}

Tensor ColumnLinear::forward(ParallelContext& context, const Tensor& x, ActivationStash& stash,
                             Activation activation) {
  int64_t outputs = 0;
  for (const Map& map : maps_) outputs += context.store.weight(map.weight).shape[0];
  const ArenaScope scope(context.scratch);
  const Tensor all =
      context.tensor.allRows(purposes_.rows, x, stash.tokens.count(), sequence_, context.scratch);
  const Tensor y = stash.untilWeights.allocate(x.type, {all.shape[0], outputs});
  const int64_t ofLast = context.store.weight(maps_.back().weight).shape[0];
  const Tensor active = activation == Activation::None
                            ? y
                            : stash.untilWeights.allocate(x.type, {all.shape[0], ofLast});
  int64_t begin = 0;
  for (const Map& map : maps_) {
    const Tensor weight = context.store.weight(map.weight);
    GemmArgs product{
        .a = all, .b = weight, .c = y.part(1, begin, weight.shape[0]), .transposeB = true};
    if (hasBias_) product.epilogue.bias = context.store.weight(map.bias);
    if (activation != Activation::None && &map == &maps_.back()) {
      product.c = active;
      product.epilogue.activation = activation;
      product.epilogue.inner = y;
    }
    context.kernels.gemm(product);
    begin += weight.shape[0];
  }
  stash.push(x);
  if (activation != Activation::None) stash.push(y);
  return active;
}

Tensor ColumnLinear::backward(ParallelContext& context, const Tensor& dy, ActivationStash& stash) {
  const Tensor x = stash.pop();
  const ArenaScope scope(context.scratch);
  Arena& arena = context.tensor.arenaOfSummands(sequence_, stash.untilWeights, context.scratch);
  const Tensor summands = arena.allocate(x.type, {dy.shape[0], inputs_});
  int64_t begin = 0;
  for (const Map& map : maps_) {
    const Tensor weight = context.store.weight(map.weight);
    context.kernels.gemm({.a = dy.part(1, begin, weight.shape[0]),
                          .b = weight,
                          .c = summands,
                          .beta = factor(Purpose::MapAccumulation, begin == 0 ? 0 : 1, 0)});
    begin += weight.shape[0];
  }
  stash.work.push_back({[this, x, dy](ParallelContext& c, int microBatch) {
    const ArenaScope gathered(c.scratch);
    const Tensor all = c.tensor.allRows(purposes_.rowsAgain, x, dy.shape[0], sequence_, c.scratch);
    int64_t from = 0;
    for (const Map& map : maps_) {
      const GradientSlot weight = c.store.gradient(map.weight, microBatch);
      const Tensor part = dy.part(1, from, weight.buffer.shape[0]);
      c.kernels.gemm(
          {.a = part, .b = all, .c = weight.buffer, .transposeA = true, .beta = weight.beta});
      from += weight.buffer.shape[0];
      if (!hasBias_) continue;
      const GradientSlot bias = c.store.gradient(map.bias, microBatch);
      c.kernels.biasGradient(part, bias.buffer, bias.beta);
    }
  }});
  return context.tensor.addUp(purposes_.gradientSum, summands, sequence_, stash.untilWeights);
}

RowLinear::RowLinear(const RowLinearOptions& o)
    : hasBias_(o.bias),
      sequence_(o.sequenceParallel),
      purposes_(o.purposes),
      weight_{.name = o.name + ".weight",
              .global = {o.outputs, o.inputs},
              .init = {Init::Normal, o.deviation},
              .layout = o.owner < 0 ? cutOverTensor(1) : Layout{},
              .unit = o.unit,
              .owner = o.owner},
      bias_{.name = o.name + ".bias",
            .global = {o.outputs},
            .gradientPartial = partialOverRows(o.sequenceParallel),
            .unit = o.unit,
            .owner = o.owner} {}

void RowLinear::declare(ParameterStore& store) {
  store.add(weight_);
  if (hasBias_) store.add(bias_);
}

/// Bias and residual belong to the sum of all ranks' summands: with one rank to the product.
Tensor RowLinear::forward(ParallelContext& context, const Tensor& x, const Tensor& residual,
                          ActivationStash& stash) {
  const ArenaScope scope(context.scratch);
  Arena& arena = context.tensor.arenaOfSummands(sequence_, stash.untilWeights, context.scratch);
  const Tensor summands = arena.allocate(x.type, {x.shape[0], weight_.global[0]});
  const Tensor bias = hasBias_ ? context.store.weight(bias_) : Tensor{};
  GemmArgs product{.a = x, .b = context.store.weight(weight_), .c = summands, .transposeB = true};
  const bool isWhole = context.tensor.ranks() == 1;
  if (isWhole) product.epilogue = {.bias = bias, .residual = residual};
  context.kernels.gemm(product);
  stash.push(x);
  if (isWhole) return summands;
  const Tensor y = context.tensor.addUp(purposes_.sum, summands, sequence_, stash.untilWeights);
  if (hasBias_) context.kernels.addBias(bias, y);
  if (residual.data != nullptr) context.kernels.add(residual, y);
  return y;
}

Tensor RowLinear::backward(ParallelContext& context, const Tensor& dy, ActivationStash& stash,
                           Activation activation) {
  const Tensor x = stash.pop();
  const Tensor inner = activation == Activation::None ? Tensor{} : stash.pop();
  const Tensor all =
      context.tensor.allRows(purposes_.gradientRows, dy, x.shape[0], sequence_, stash.untilWeights);
  const Tensor dx =
      stash.untilWeights.allocate(x.type, activation == Activation::None ? x.shape : inner.shape);
  context.kernels.gemm({.a = all,
                        .b = context.store.weight(weight_),
                        .c = dx,
                        .epilogue = {.activation = activation, .inner = inner}});
  stash.work.push_back({[this, x, dy, all](ParallelContext& c, int microBatch) {
    const GradientSlot weight = c.store.gradient(weight_, microBatch);
    c.kernels.gemm({.a = all, .b = x, .c = weight.buffer, .transposeA = true, .beta = weight.beta});
    if (!hasBias_) return;
    const GradientSlot bias = c.store.gradient(bias_, microBatch);
    c.kernels.biasGradient(dy, bias.buffer, bias.beta);
  }});
  return dx;
}

namespace {

/// For what a norm's backward leaves of slices of the rows, in each so many sums of a column; where
/// the device leaves none it is left out.
Tensor sumsOfSlices(Kernels& kernels, const NormSlicesArgs& args, int64_t each, Arena& arena) {
  const int64_t slices = kernels.normSlices(args);
  return slices == 0 ? Tensor{} : arena.allocate(DType::Float32, {each, slices, args.x.shape[-1]});
}

}  // namespace

LayerNorm::LayerNorm(const NormOptions& o)
    : epsilon_(o.epsilon),
      weight_{.name = o.name + ".weight",
              .global = {o.width},
              .init = {Init::One},
              .gradientPartial = partialOverRows(o.sequenceParallel),
              .unit = o.unit,
              .owner = o.owner},
      bias_{.name = o.name + ".bias",
            .global = {o.width},
            .gradientPartial = partialOverRows(o.sequenceParallel),
            .unit = o.unit,
            .owner = o.owner} {}

void LayerNorm::declare(ParameterStore& store) {
  store.add(weight_);
  store.add(bias_);
}

Tensor LayerNorm::forward(ParallelContext& context, const Tensor& x, const Tensor& residual,
                          ActivationStash& stash) {
  const Tensor y = stash.untilWeights.allocate(x.type, x.shape);
  const Shape rows{x.shape[0]};
  const Tensor mean = stash.untilWeights.allocate(statisticsType(x.type), rows);
  const Tensor rstd = stash.untilWeights.allocate(statisticsType(x.type), rows);
  context.kernels.layerNorm({.x = x,
                             .weight = context.store.weight(weight_),
                             .bias = context.store.weight(bias_),
                             .y = y,
                             .mean = mean,
                             .rstd = rstd,
                             .residual = residual,
                             .epsilon = epsilon_});
  stash.push(x);
  stash.push(mean);
  stash.push(rstd);
  return y;
}

Tensor LayerNorm::backward(ParallelContext& context, const Tensor& dy, const Tensor& residual,
                           ActivationStash& stash) {
  const Tensor rstd = stash.pop(), mean = stash.pop(), x = stash.pop();
  const Tensor dx = stash.untilWeights.allocate(x.type, x.shape);
  const Tensor scale = context.store.weight(weight_);
  const Tensor sums =
      sumsOfSlices(context.kernels, {dy, x, scale, residual, dx}, 2, stash.untilWeights);
  context.kernels.layerNormBackward({.dy = dy,
                                     .x = x,
                                     .weight = scale,
                                     .mean = mean,
                                     .rstd = rstd,
                                     .residual = residual,
                                     .dx = dx,
                                     .sums = sums});
  stash.work.push_back({[this, x, dy, mean, rstd, sums](ParallelContext& c, int microBatch) {
    const GradientSlot weight = c.store.gradient(weight_, microBatch);
    const GradientSlot bias = c.store.gradient(bias_, microBatch);
    c.kernels.layerNormWeights({.dy = dy,
                                .x = x,
                                .mean = mean,
                                .rstd = rstd,
                                .dWeight = weight.buffer,
                                .dBias = bias.buffer,
                                .betaWeight = weight.beta,
                                .betaBias = bias.beta,
                                .sums = sums});
  }});
  return dx;
}

RmsNorm::RmsNorm(const NormOptions& o)
    : epsilon_(o.epsilon),
      weight_{.name = o.name + ".weight",
              .global = {o.width},
              .init = {Init::One},
              .gradientPartial = partialOverRows(o.sequenceParallel),
              .unit = o.unit,
              .owner = o.owner} {}

void RmsNorm::declare(ParameterStore& store) { store.add(weight_); }

Tensor RmsNorm::forward(ParallelContext& context, const Tensor& x, const Tensor& residual,
                        ActivationStash& stash) {
  const Tensor y = stash.untilWeights.allocate(x.type, x.shape);
  const Tensor rstd = stash.untilWeights.allocate(statisticsType(x.type), {x.shape[0]});
  context.kernels.rmsNorm({.x = x,
                           .weight = context.store.weight(weight_),
                           .y = y,
                           .rstd = rstd,
                           .residual = residual,
                           .epsilon = epsilon_});
  stash.push(x);
  stash.push(rstd);
  return y;
}

Tensor RmsNorm::backward(ParallelContext& context, const Tensor& dy, const Tensor& residual,
                         ActivationStash& stash) {
  const Tensor rstd = stash.pop(), x = stash.pop();
  const Tensor dx = stash.untilWeights.allocate(x.type, x.shape);
  const Tensor scale = context.store.weight(weight_);
  const Tensor sums =
      sumsOfSlices(context.kernels, {dy, x, scale, residual, dx}, 1, stash.untilWeights);
  context.kernels.rmsNormBackward({.dy = dy,
                                   .x = x,
                                   .weight = scale,
                                   .rstd = rstd,
                                   .residual = residual,
                                   .dx = dx,
                                   .sums = sums});
  stash.work.push_back({[this, x, dy, rstd, sums](ParallelContext& c, int microBatch) {
    const GradientSlot weight = c.store.gradient(weight_, microBatch);
    c.kernels.rmsNormWeights({.dy = dy,
                              .x = x,
                              .rstd = rstd,
                              .dWeight = weight.buffer,
                              .beta = weight.beta,
                              .sums = sums});
  }});
  return dx;
}

}  // namespace tutti::parallel
