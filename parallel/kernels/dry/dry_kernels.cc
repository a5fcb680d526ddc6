#include "parallel/kernels/dry/dry_kernels.h"

#include <algorithm>
#include <array>
#include <span>

#include "parallel/kernels/host/attention_scratch.h"
#include "parallel/kernels/norm_slices.h"
#include "parallel/kernels/operands.h"

namespace tutti::parallel {

namespace {

void requireComputable(const Tensor& x) {
  if (x.type != DType::Float32 && x.type != DType::Float64)
    fail(ErrorCode::Unsupported, "kernels compute in float64, float32 and bfloat16, not in ",
         toString(x.type));
}

/// The operands of one call: what it does with them, and whether they go together.
class DryCall {
 public:
  template <class... Tensors>
  DryCall& reads(Tensors&... operands) {
    (take(operands, true, false), ...);
    return *this;
  }
  template <class... Tensors>
  DryCall& writes(Tensors&... operands) {
    (take(operands, false, true), ...);
    return *this;
  }
  template <class... Tensors>
  DryCall& updates(Tensors&... operands) {
    (take(operands, true, true), ...);
    return *this;
  }
  /// That other operands are parts of.
  DryCall& uses(Tensor& x) {
    take(x, false, false);
    return *this;
  }
  /// What is overwritten when `beta` is 0, and else added to.
  DryCall& result(Tensor& x, double beta) {
    take(x, beta != 0, true);
    return *this;
  }

  /// The call's count, when `check` finds nothing wrong and it can be computed with `leading`.
  /// Operands of 16 bits become float32 first, as which they are computed with, so that what
  /// `check` sees has to be of one type.
  template <class Check>
  const KernelCount& checked(const Tensor& leading, const Check& check) {
    for (Tensor* x : std::span(operands_).first(taken_))
      if (isNarrow(x->type)) x->type = DType::Float32;
    check();
    requireComputable(leading);
    return count_;
  }
  /// Of a call that has nothing to do with types.
  const KernelCount& count() const { return count_; }

 private:
  void take(Tensor& x, bool read, bool written) {
    operands_.at(taken_++) = &x;
    const size_t bytes = x.data == nullptr ? 0 : x.bytes();
    if (read) count_.bytesRead += bytes;
    if (written) count_.bytesWritten += bytes;
  }

  std::array<Tensor*, 12> operands_{};
  size_t taken_ = 0;
  KernelCount count_{.calls = 1};
};

/// Of a norm's backward, and of the gradients of its weights, which know less.
template <class Backward>
NormSlicesArgs slicesArgsOf(const Backward& a) {
  return {a.dy, a.x, a.weight, a.residual, a.dx};
}

template <class Weights>
NormSlicesArgs weightSlicesArgsOf(const Weights& a) {
  return {a.dy, a.x, {}, {}, {}};
}

/// Of one matrix product over the pairs of a query and a key that it may see, in all heads. What
/// documents there are is not known.
double causalFlops(const Tensor& out, int64_t keys, int64_t ahead, const AttentionReach& reach) {
  const auto batch = static_cast<double>(out.shape[0]), width = static_cast<double>(out.shape[2]);
  return 2 * batch * width * seenPairs(out.shape[1], keys, ahead, reach.window);
}

}  // namespace

KernelCount& KernelCount::operator+=(const KernelCount& other) {
  calls += other.calls;
  bytesRead += other.bytesRead;
  bytesWritten += other.bytesWritten;
  gemmFlops += other.gemmFlops;
  return *this;
}

KernelCount DryKernels::total() const {
  KernelCount all;
  for (const auto& [name, count] : counts_) all += count;
  return all;
}

KernelCount& DryKernels::countOf(const char* name) {
  for (auto& [known, count] : counts_)
    if (known == name) return count;
  return counts_.emplace_back(name, KernelCount{}).second;
}

/// What a call of the host's kernels takes while it lasts.
void DryKernels::take(Arena& scratch, DType type, std::initializer_list<Shape> shapes) const {
  if (kind_ != DeviceKind::Host) return;
  const ArenaScope scope(scratch);
  for (const Shape& shape : shapes) scratch.allocate(type, shape);
}

void DryKernels::gemm(const GemmArgs& args) {
  GemmArgs a = args;
  GemmEpilogue& e = a.epilogue;
  KernelCount& count = countOf("gemm");
  DryCall call;
  call.reads(a.a, a.b, e.bias, e.residual).result(a.c, a.beta);
  Tensor gate, up;
  if (e.activation == Activation::SwiGlu && e.inner.shape.rank() >= 2) {
    gate = leftHalf(e.inner), up = rightHalf(e.inner);
    call.reads(gate).writes(up).uses(e.inner);
  } else if (e.activation == Activation::Gelu) {
    call.writes(e.inner);
  } else {
    call.reads(e.inner);
  }
  count += call.checked(a.c, [&] { requireOperands(a); });
  const GemmArgs one = productOf(a, 0);
  count.gemmFlops += 2 * static_cast<double>(batchOf(a)) * static_cast<double>(one.c.shape[0]) *
                     static_cast<double>(productColumns(one)) * static_cast<double>(summed(one));
}

void DryKernels::fillZero(const Tensor& x) {
  Tensor to = x;
  requireContiguous("fillZero", to);
  countOf("fillZero") += DryCall().writes(to).count();
}

void DryKernels::copy(const Tensor& from, const Tensor& to) {
  Tensor source = from, target = to;
  DryCall call;
  call.reads(source).writes(target);
  requireCopy(source, target);
  if (from.type != to.type) call.checked(source, [&] { requireComputable(target); });
  countOf("copy") += call.count();
}

void DryKernels::addBias(const Tensor& bias, const Tensor& y) {
  Tensor b = bias, sum = y;
  countOf("addBias") +=
      DryCall().reads(b).updates(sum).checked(sum, [&] { requireAddBias(b, sum); });
}

void DryKernels::biasGradient(const Tensor& dy, const Tensor& db, double beta) {
  Tensor from = dy, to = db;
  countOf("biasGradient") +=
      DryCall().reads(from).result(to, beta).checked(from, [&] { requireBiasGradient(from, to); });
}

void DryKernels::add(const Tensor& from, const Tensor& to) {
  Tensor more = from, sum = to;
  countOf("add") += DryCall().reads(more).updates(sum).checked(sum, [&] { requireAdd(more, sum); });
}

int64_t DryKernels::normSlices(const NormSlicesArgs& args) const {
  return kind_ == DeviceKind::Host ? 0 : normSlicesOf(args);
}

void DryKernels::layerNorm(const LayerNormArgs& args) {
  LayerNormArgs a = args;
  DryCall call;
  call.reads(a.residual, a.weight, a.bias).writes(a.y, a.mean, a.rstd);
  (a.residual.data == nullptr ? call.reads(a.x) : call.updates(a.x));
  countOf("layerNorm") += call.checked(a.x, [&] { requireOperands(a); });
}

void DryKernels::layerNormBackward(const LayerNormBackwardArgs& args) {
  LayerNormBackwardArgs a = args;
  countOf("layerNormBackward") += DryCall()
                                      .reads(a.dy, a.x, a.weight, a.mean, a.rstd, a.residual)
                                      .writes(a.dx, a.sums)
                                      .checked(a.x, [&] { requireOperands(a); });
  requireSlices("layerNormBackward", a.sums, normSlices(slicesArgsOf(args)));
}

void DryKernels::layerNormWeights(const LayerNormWeightArgs& args) {
  LayerNormWeightArgs a = args;
  DryCall call;
  if (a.sums.data == nullptr)
    call.reads(a.dy, a.x, a.mean, a.rstd);
  else
    call.reads(a.sums).uses(a.dy).uses(a.x).uses(a.mean).uses(a.rstd);
  call.result(a.dWeight, a.betaWeight).result(a.dBias, a.betaBias);
  countOf("layerNormWeights") += call.checked(a.x, [&] { requireOperands(a); });
  requireSlices("layerNormWeights", a.sums, normSlices(weightSlicesArgsOf(args)));
}

void DryKernels::gelu(const Tensor& x, const Tensor& y) {
  Tensor from = x, to = y;
  countOf("gelu") += DryCall().reads(from).writes(to).checked(from, [&] { requireGelu(from, to); });
}

void DryKernels::geluBackward(const Tensor& dy, const Tensor& x, const Tensor& dx) {
  Tensor slope = dy, from = x, to = dx;
  countOf("geluBackward") += DryCall().reads(slope, from).writes(to).checked(from, [&] {
    requireGeluBackward(slope, from, to);
  });
}

void DryKernels::rmsNorm(const RmsNormArgs& args) {
  RmsNormArgs a = args;
  DryCall call;
  call.reads(a.residual, a.weight).writes(a.y, a.rstd);
  (a.residual.data == nullptr ? call.reads(a.x) : call.updates(a.x));
  countOf("rmsNorm") += call.checked(a.x, [&] { requireOperands(a); });
}

void DryKernels::rmsNormBackward(const RmsNormBackwardArgs& args) {
  RmsNormBackwardArgs a = args;
  countOf("rmsNormBackward") += DryCall()
                                    .reads(a.dy, a.x, a.weight, a.rstd, a.residual)
                                    .writes(a.dx, a.sums)
                                    .checked(a.x, [&] { requireOperands(a); });
  requireSlices("rmsNormBackward", a.sums, normSlices(slicesArgsOf(args)));
}

void DryKernels::rmsNormWeights(const RmsNormWeightArgs& args) {
  RmsNormWeightArgs a = args;
  DryCall call;
  if (a.sums.data == nullptr)
    call.reads(a.dy, a.x, a.rstd);
  else
    call.reads(a.sums).uses(a.dy).uses(a.x).uses(a.rstd);
  countOf("rmsNormWeights") +=
      call.result(a.dWeight, a.beta).checked(a.x, [&] { requireOperands(a); });
  requireSlices("rmsNormWeights", a.sums, normSlices(weightSlicesArgsOf(args)));
}

void DryKernels::rotary(const RotaryArgs& args) {
  RotaryArgs a = args;
  countOf("rotary") += DryCall().reads(a.cosine, a.sine, a.at).updates(a.x).checked(a.x, [&] {
    requireOperands(a);
  });
}

void DryKernels::swiGlu(const Tensor& x, const Tensor& y) {
  Tensor from = x, to = y;
  countOf("swiGlu") +=
      DryCall().reads(from).writes(to).checked(from, [&] { requireSwiGlu(from, to); });
}

void DryKernels::swiGluBackward(const Tensor& dy, const Tensor& x, const Tensor& dx) {
  Tensor slope = dy, from = x, to = dx;
  countOf("swiGluBackward") += DryCall().reads(slope, from).writes(to).checked(from, [&] {
    requireSwiGluBackward(slope, from, to);
  });
}

void DryKernels::attention(const AttentionArgs& args, Arena& scratch) {
  AttentionArgs a = args;
  KernelCount& count = countOf("attention");
  count += DryCall().reads(a.qkv, a.reach.starts).writes(a.out, a.logSumExp).checked(a.out, [&] {
    requireOperands(a);
  });
  const int64_t context = a.out.shape[1];
  count.gemmFlops += 2 * causalFlops(a.out, context, 0, a.reach);  // of scores, of values
  take(scratch, a.out.type, {host::forwardScratch(context, context, a.out.shape[2] / a.heads)});
}

void DryKernels::attentionBackward(const AttentionBackwardArgs& args, Arena& scratch) {
  AttentionBackwardArgs a = args;
  KernelCount& count = countOf("attentionBackward");
  count += DryCall()
               .reads(a.dOut, a.qkv, a.out, a.logSumExp, a.reach.starts)
               .writes(a.dQkv)
               .checked(a.out, [&] { requireOperands(a); });
  const int64_t context = a.out.shape[1];
  count.gemmFlops += 5 * causalFlops(a.out, context, 0, a.reach);  // scores again, dP, dV, dQ, dK
  const Shape block = host::backwardScratch(context, context, a.out.shape[2] / a.heads);
  take(scratch, a.out.type, {block, block, {block[1]}});
}

void DryKernels::attentionBlock(const AttentionBlockArgs& args, Arena& scratch) {
  AttentionBlockArgs a = args;
  KernelCount& count = countOf("attentionBlock");
  count += DryCall()
               .reads(a.query, a.key, a.value, a.reach.starts)
               .writes(a.out, a.logSumExp)
               .checked(a.out, [&] { requireOperands(a); });
  const int64_t keys = a.key.shape[1];
  count.gemmFlops += 2 * causalFlops(a.out, keys, a.firstQuery - a.firstKey, a.reach);
  take(scratch, a.out.type, {host::forwardScratch(a.out.shape[1], keys, a.out.shape[2] / a.heads)});
}

void DryKernels::attentionBlockBackward(const AttentionBlockBackwardArgs& args, Arena& scratch) {
  AttentionBlockBackwardArgs a = args;
  KernelCount& count = countOf("attentionBlockBackward");
  count += DryCall()
               .reads(a.dOut, a.query, a.key, a.value, a.out, a.logSumExp, a.reach.starts)
               .updates(a.dQuery, a.dKey, a.dValue)
               .checked(a.out, [&] { requireOperands(a); });
  const int64_t keys = a.key.shape[1];
  count.gemmFlops += 5 * causalFlops(a.out, keys, a.firstQuery - a.firstKey, a.reach);
  const Shape block = host::backwardScratch(a.out.shape[1], keys, a.out.shape[2] / a.heads);
  take(scratch, a.out.type, {block, block, {block[1]}});
}

void DryKernels::attentionMerge(const AttentionMergeArgs& args) {
  AttentionMergeArgs a = args;
  countOf("attentionMerge") +=
      DryCall().reads(a.part, a.partLogSumExp).updates(a.out, a.logSumExp).checked(a.out, [&] {
        requireOperands(a);
      });
}

void DryKernels::embedding(const EmbeddingArgs& args) {
  EmbeddingArgs a = args;
  countOf("embedding") +=
      DryCall().reads(a.tokenIds, a.tokens, a.positions, a.at).writes(a.x).checked(a.x, [&] {
        requireOperands(a);
      });
}

void DryKernels::embeddingWeights(const EmbeddingWeightArgs& args) {
  EmbeddingWeightArgs a = args;
  countOf("embeddingWeights") += DryCall()
                                     .reads(a.tokenIds, a.dx, a.at)
                                     .result(a.dTokens, a.betaTokens)
                                     .result(a.dPositions, a.betaPositions)
                                     .checked(a.dx, [&] { requireOperands(a); });
}

void DryKernels::logitStatistics(const LogitStatisticsArgs& args) {
  LogitStatisticsArgs a = args;
  countOf("logitStatistics") +=
      DryCall().reads(a.logits, a.labels).writes(a.statistics).checked(a.logits, [&] {
        requireOperands(a);
      });
}

double DryKernels::crossEntropy(const CrossEntropyArgs& args) {
  CrossEntropyArgs a = args;
  DryCall call;
  call.reads(a.labels, a.statistics);
  countOf("crossEntropy") +=
      (a.gradient ? call.updates(a.logits) : call.reads(a.logits)).checked(a.logits, [&] {
        requireOperands(a);
      });
  return 0;
}

void DryKernels::route(const RouteArgs& args) {
  RouteArgs a = args;
  countOf("route") += DryCall()
                          .reads(a.logits)
                          .writes(a.probabilities, a.logSumExp, a.chosen, a.weights)
                          .checked(a.logits, [&] { requireOperands(a); });
}

void DryKernels::countChoices(const CountChoicesArgs& args) {
  CountChoicesArgs a = args;
  requireOperands(a);
  countOf("countChoices") += DryCall().reads(a.chosen).writes(a.choices).count();
}

void DryKernels::placeTokens(const PlaceTokensArgs& args) {
  PlaceTokensArgs a = args;
  requireOperands(a);
  countOf("placeTokens") += DryCall().reads(a.chosen, a.pieces).writes(a.places, a.choices).count();
  const auto experts = static_cast<int64_t>(a.loads.size()), choices = a.chosen.count();
  // Of the sequences' rows as large a share as is here.
  const int64_t most = a.capacity == 0 ? choices : a.chosen.shape[0] * a.capacity / a.length;
  for (int64_t e = 0; e < experts; ++e)
    a.loads[static_cast<size_t>(e)] =
        std::min(choices / experts + (e < choices % experts ? 1 : 0), most);
}

RouterLosses DryKernels::routerGradient(const RouterGradientArgs& args) {
  RouterGradientArgs a = args;
  countOf("routerGradient") +=
      DryCall()
          .reads(a.dWeights, a.probabilities, a.logSumExp, a.chosen, a.weights, a.choices)
          .writes(a.dLogits)
          .checked(a.dLogits, [&] { requireOperands(a); });
  return {};
}

void DryKernels::spreadRows(const SpreadRowsArgs& args) {
  SpreadRowsArgs a = args;
  countOf("spreadRows") += DryCall().reads(a.x, a.places, a.weights).writes(a.y).checked(a.x, [&] {
    requireOperands(a);
  });
}

void DryKernels::combineRows(const CombineRowsArgs& args) {
  CombineRowsArgs a = args;
  countOf("combineRows") += DryCall().reads(a.x, a.places, a.weights).writes(a.y).checked(a.y, [&] {
    requireOperands(a);
  });
}

void DryKernels::rowDots(const RowDotsArgs& args) {
  RowDotsArgs a = args;
  countOf("rowDots") +=
      DryCall().reads(a.x, a.y, a.places).writes(a.dots).checked(a.x, [&] { requireOperands(a); });
}

void DryKernels::adamW(const AdamWArgs& args) {
  for (AdamWTensors t : args.tensors)
    countOf("adamW") += DryCall()
                            .reads(t.gradient)
                            .updates(t.weight, t.first, t.second)
                            .writes(t.copy)
                            .checked(t.weight, [&] { requireOperands(t); });
}

void DryKernels::sgd(const SgdArgs& args) {
  for (SgdTensors t : args.tensors)
    countOf("sgd") +=
        DryCall().reads(t.gradient).updates(t.weight, t.velocity).checked(t.weight, [&] {
          requireOperands(t);
        });
}

void DryKernels::addSquares(std::span<const Tensor> all, ExactSum&) {
  for (Tensor x : all)
    countOf("addSquares") +=
        DryCall().reads(x).checked(x, [&] { requireContiguous("addSquares", x); });
}

}  // namespace tutti::parallel
