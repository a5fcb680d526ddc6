#pragma once

// Kernels: every computation of the training library on one device, behind one interface. Modules
// call nothing else, so a device is added by implementing this, and a dry run is an implementation
// that only counts.
//
// Conventions. Tensors of one call (of a call over many weights, those of one weight) have one
// floating type, except that in a call with bfloat16 or float16 any of them may be float32: what is
// summed over many rows (gradients of weights) or kept for backward (means, deviations, logarithms
// of sums) should be. Sums of these are accumulated in
// float32 and rounded once. "Rows" are the product of all dimensions but the last. `beta` is 0 or
// 1: overwrite the result, or add to it. Every result is a function of the device and of the
// operands' values and shapes, and of addresses only by what they are aligned to (not of earlier
// calls), which the deterministic mode relies on. Operands are contiguous, unless it says that
// their rows may be strided: then the last dimension is adjacent, and the others may have gaps.
//
// A vocabulary may be cut over ranks, each of which has some of its rows: from `firstId` on. Ids
// and labels are of the whole of it; `vocabulary` says how many there are, 0 that none are
// elsewhere.
//
// Errors. Throws InvalidArgument, naming the operands, when shapes or types disagree, when a tensor
// that must be contiguous is not, and when a token id or a label is outside the vocabulary, an
// expert or a place outside those there are; Unsupported for an element type that the device does
// not compute in; OutOfMemory when `scratch` cannot grow. Results are then unspecified. NaN and
// infinity are data, not errors.

#include <array>
#include <span>

#include <tutti/device.h>
#include "parallel/kernels/activation.h"
#include "parallel/kernels/exact_sum.h"
#include "parallel/tensor/arena.h"
#include "parallel/tensor/tensor.h"

namespace tutti::parallel {

/// What becomes of x, a sum of a product [m, n], on its way to c, in this order. What is left out
/// changes nothing.
///   1. x times `scale`
///   2. + bias, that of its column
///   3. Gelu            gelu(x); what was x is kept in `inner`
///      GeluBackward    x times the derivative of gelu at `inner`
///      SwiGlu          g / (1 + exp(-g)) * x, where g is in the left half of `inner`; what was x
///                      is kept in the right half
///      SwiGluBackward  what swiGluBackward makes of x and of `inner`, for c [m, 2 n]
///   4. + residual
///   5. + beta * c
/// It is what the calls are together that do one step each, but a device may keep more bits from
/// step to step than the type of c has. No result overlaps with another operand. Rows may be
/// strided.
struct GemmEpilogue {
  Activation activation = Activation::None;
  Tensor inner{};     ///< [m, n], of SwiGLU [m, 2 n]; of Gelu no data: x is not kept
  Tensor bias{};      ///< [n]
  Tensor residual{};  ///< as c
  double scale = 1;
};

/// c [m, n] = a * b + beta * c, where a is [m, k] or, transposed, [k, m]; b is [k, n] or [n, k].
/// Rows may be strided, columns must be adjacent.
///
/// A batch of products has c [batch, m, n]. Each other operand has that dimension, too, or all
/// products share it. Matrices may lie anywhere apart, those of results without overlap.
struct GemmArgs {
  Tensor a, b, c;
  bool transposeA = false;
  bool transposeB = false;
  double beta = 0;
  GemmEpilogue epilogue{};
};

struct LayerNormArgs {
  Tensor x;             ///< [rows, width]
  Tensor weight, bias;  ///< [width]
  Tensor y;             ///< [rows, width]
  Tensor mean, rstd;    ///< [rows], written by forward, read by backward
  Tensor residual{};  ///< [rows, width] added to x, as by add(), before all else; no data: nothing
  double epsilon = 1e-5;
};
struct LayerNormBackwardArgs {
  Tensor dy, x;       ///< [rows, width]
  Tensor weight;      ///< [width]
  Tensor mean, rstd;  ///< [rows], of forward
  Tensor residual;    ///< [rows, width] added to dx; no data: nothing is added
  Tensor dx;          ///< [rows, width]; may be `dy` or `residual`
  Tensor sums{};      ///< float32 [2, normSlices(), width], at 16 bytes, overwritten: of each slice
                      ///< of the rows what layerNormWeights adds up, of all slices dy times the
                      ///< normalized x, then of all dy; no data: they are not wanted
};
struct LayerNormWeightArgs {
  Tensor dy, x;           ///< [rows, width]
  Tensor mean, rstd;      ///< [rows], of forward
  Tensor dWeight, dBias;  ///< [width]
  double betaWeight = 0, betaBias = 0;
  Tensor sums{};  ///< of backward, which are added up; dy, x, mean and rstd are then not read
};

/// y = x / sqrt(mean(x^2) + epsilon) * weight, row by row (Zhang and Sennrich).
struct RmsNormArgs {
  Tensor x;           ///< [rows, width]
  Tensor weight;      ///< [width]
  Tensor y;           ///< [rows, width]
  Tensor rstd;        ///< [rows], written by forward, read by backward
  Tensor residual{};  ///< as layerNorm's
  double epsilon = 1e-5;
};
struct RmsNormBackwardArgs {
  Tensor dy, x;     ///< [rows, width]
  Tensor weight;    ///< [width]
  Tensor rstd;      ///< [rows], of forward
  Tensor residual;  ///< [rows, width] added to dx; no data: nothing is added
  Tensor dx;        ///< [rows, width]; may be `dy` or `residual`
  Tensor sums{};    ///< as layerNormBackward's, [1, slices, width]: there are none of dy
};
struct RmsNormWeightArgs {
  Tensor dy, x;    ///< [rows, width]
  Tensor rstd;     ///< [rows], of forward
  Tensor dWeight;  ///< [width]
  double beta = 0;
  Tensor sums{};  ///< as layerNormWeights'
};
/// Operands of either norm's backward.
struct NormSlicesArgs {
  Tensor dy, x, weight, residual, dx;
};

/// Rotary positions (Su et al.): in each head, element i and element i + headWidth / 2 of position
/// t are turned together by an angle of t. The arrangement is that of Hugging Face's Llama.
struct RotaryArgs {
  Tensor x;             ///< [batch, context, columns]; its first `heads` heads are turned in place
  Tensor cosine, sine;  ///< [at least context, headWidth / 2], of the angles
  Tensor at;            ///< int32 [context]: rows of these tables; no data: 0, 1, 2, ...
  int64_t heads = 1, headWidth = 0;
  bool back = false;  ///< the other way around, as gradients go
};

/// Of the keys at its own position and before it those that a query sees, where it is not all. What
/// `starts` holds is not checked.
struct AttentionReach {
  int64_t window = 0;  ///< those fewer than so many positions away; 0: all
  /// int32 [batch, documents]: the positions where documents begin that are packed into one
  /// sequence, ascending; queries see keys of their own document. The first is 0; of a sequence
  /// with fewer documents the last ones are beyond its positions. No data: each is one.
  Tensor starts{};
};

/// Causal self-attention; scores are scaled by 1 / sqrt(head width). Keys and values may have fewer
/// heads than queries, each of which then serves heads / kvHeads neighbouring heads (Ainslie et
/// al.). A row of qkv has the queries' heads, then those of the keys, then those of the values. The
/// scores are never kept: backward computes them again from the row's log-sum-exp.
struct AttentionArgs {
  Tensor qkv;        ///< [batch, context, (heads + 2 kvHeads) * head width]
  Tensor out;        ///< [batch, context, heads * head width]
  Tensor logSumExp;  ///< [batch, heads, context]
  int64_t heads = 1, kvHeads = 1;
  AttentionReach reach{};
};
struct AttentionBackwardArgs {
  Tensor dOut;       ///< [batch, context, heads * head width]
  Tensor qkv;        ///< [batch, context, (heads + 2 kvHeads) * head width]
  Tensor out;        ///< [batch, context, heads * head width], of forward
  Tensor logSumExp;  ///< [batch, heads, context], of forward
  Tensor dQkv;       ///< as qkv, overwritten
  int64_t heads = 1, kvHeads = 1;
  AttentionReach reach{};
};

/// Causal attention of some positions of a sequence to some: queries are those of the positions
/// from `firstQuery` on, keys and values from `firstKey` on, and a query sees keys of its own
/// position and before. What several such calls give of the same queries is merged to what one call
/// with all their keys gives (Liu et al., "Ring Attention with Blockwise Transformers"). Rows of
/// all operands may be strided.
struct AttentionBlockArgs {
  Tensor query;       ///< [batch, queries, heads * head width]
  Tensor key, value;  ///< [batch, keys, kvHeads * head width]
  Tensor out;         ///< as query; 0 of a query that sees no key
  Tensor logSumExp;   ///< [batch, heads, queries]; minus infinity of such a query
  int64_t heads = 1, kvHeads = 1;
  int64_t firstQuery = 0, firstKey = 0;
  AttentionReach reach{};
};
/// The gradients of some queries and keys from what merging gave of these queries.
struct AttentionBlockBackwardArgs {
  Tensor dOut;          ///< as query
  Tensor query;         ///< [batch, queries, heads * head width]
  Tensor key, value;    ///< [batch, keys, kvHeads * head width]
  Tensor out;           ///< as query, with all keys
  Tensor logSumExp;     ///< [batch, heads, queries], with all keys
  Tensor dQuery;        ///< as query; added to
  Tensor dKey, dValue;  ///< as key; added to
  int64_t heads = 1, kvHeads = 1;
  int64_t firstQuery = 0, firstKey = 0;
  AttentionReach reach{};
};
/// Attention to the keys of `part` and to those of `out` becomes attention to all of them. Rows may
/// be strided.
struct AttentionMergeArgs {
  Tensor part;           ///< [batch, queries, heads * head width]
  Tensor partLogSumExp;  ///< [batch, heads, queries]
  Tensor out;            ///< as part, updated
  Tensor logSumExp;      ///< as partLogSumExp, updated
  int64_t heads = 1;
};

/// x[b, t] = tokens[tokenIds[b, t]] + positions[t]; of an id whose row is elsewhere, without it.
struct EmbeddingArgs {
  Tensor tokenIds;   ///< int32 [batch, context]
  Tensor tokens;     ///< [rows of the vocabulary, width]
  Tensor positions;  ///< [at least context, width]; no data: nothing is added
  Tensor x;          ///< [batch, context, width]
  Tensor at;         ///< int32 [context]: rows of `positions`; no data: 0, 1, 2, ...
  int64_t firstId = 0, vocabulary = 0;
};
struct EmbeddingWeightArgs {
  Tensor tokenIds;    ///< int32 [batch, context]
  Tensor dx;          ///< [batch, context, width]
  Tensor dTokens;     ///< [rows of the vocabulary, width]
  Tensor dPositions;  ///< [at least context, width]; rows of no token get beta * themselves;
                      ///< no data: there are no positions
  Tensor at;          ///< int32 [context]: rows of dPositions; no data: 0, 1, 2, ...
  double betaTokens = 0, betaPositions = 0;
  int64_t firstId = 0, vocabulary = 0;
};

/// What one rank's logits contribute to the softmax of each row: the largest of them, the sum of
/// exp(logit - largest), and the label's logit, or 0 where that is elsewhere or does not count.
struct LogitStatisticsArgs {
  Tensor logits;      ///< [rows, part of the vocabulary]; rows may be strided, all alike
  Tensor labels;      ///< int32 [rows]; -1: this row does not count
  Tensor statistics;  ///< [rows, 3], of the logits' statisticsType(); overwritten
  int64_t firstId = 0, vocabulary = 0;
};
struct CrossEntropyArgs {
  Tensor logits;      ///< [rows, part], as those; replaced by the gradient when `gradient` is true
  Tensor labels;      ///< int32 [rows]; -1: this row does not count
  Tensor statistics;  ///< [ranks, rows, 3]: of all ranks that have a part, in their order; no
                      ///< data: the logits are of the whole vocabulary, and theirs are computed
  double scale = 1;   ///< of the gradient: one over the global number of counted rows
  bool gradient = true;
  int64_t firstId = 0, vocabulary = 0;
};

/// Which experts a token goes to: those that a softmax over the logits gives most, of equal ones
/// the ones of lower numbers.
struct RouteArgs {
  Tensor logits;            ///< [rows, experts]
  Tensor probabilities;     ///< [rows, experts], overwritten: the softmax
  Tensor logSumExp;         ///< [rows], overwritten: of the logits
  Tensor chosen;            ///< int32 [rows, k], overwritten: experts, the most probable first
  Tensor weights;           ///< [rows, k], overwritten: their probabilities
  bool normalized = false;  ///< weights are divided by their sum
};
/// How often tokens choose each expert. Rows are of sequences, of each as many; the first `early`
/// of these are of one piece of the sequence, the others of a later one.
struct CountChoicesArgs {
  Tensor chosen;      ///< int32 [rows, k], below the number of experts
  Tensor choices;     ///< int32 [sequences, 2, experts], overwritten
  int64_t early = 0;  ///< rows of a sequence
};
/// Where each choice of a token lies when all are put together by expert, and under each by row.
/// Rows are as countChoices counts them.
struct PlaceTokensArgs {
  Tensor chosen;   ///< int32 [rows, k], below the number of experts
  Tensor places;   ///< int32 [rows, k], overwritten; -1: the choice is dropped
  Tensor pieces;   ///< int32 [sequences, pieces, experts], of countChoices: of all
                   ///< pieces of the sequences, in their order
  Tensor choices;  ///< int32 [sequences, experts], overwritten: the sum over pieces
  std::array<int64_t, 2> own{0, 1};  ///< of the pieces those that rows are of
  int64_t early = 0;                 ///< rows of a sequence that are of the first of these
  int64_t length = 0;                ///< of a sequence, with all its pieces
  int64_t capacity = 0;              ///< of an expert: the first so many of a sequence; 0: all
  std::span<int64_t> loads{};  ///< by expert, overwritten: choices that are not dropped; a dry run
                               ///< says as many of each expert, which no operand can tell it
};
/// What a router's two losses are, and gradients of its logits: of the weights' and of these.
struct RouterGradientArgs {
  Tensor dWeights;                  ///< [rows, k]
  Tensor probabilities, logSumExp;  ///< [rows, experts], [rows], of route
  Tensor chosen, weights;           ///< [rows, k], of route
  Tensor choices;                   ///< int32 [sequences, experts], of placeTokens
  Tensor dLogits;                   ///< [rows, experts], overwritten
  int64_t length = 0;               ///< of a sequence, whose rows may be here in part
  bool normalized = false;
  double balance = 0, z = 0;  ///< scales of the losses' gradients
};
/// Sums over sequences: of experts * sum over experts of (share of the choices) * (mean
/// probability), which is 1 where all are used alike, and of the mean of logSumExp^2. Of sequences
/// of which not all rows are here these rows' summands of the means.
struct RouterLosses {
  double balance = 0, z = 0;
};

/// y[places[r, j]] = weights[r, j] * x[r], of choices that are not dropped. Rows of y that no place
/// names are left as they are.
struct SpreadRowsArgs {
  Tensor x;        ///< [rows, width]
  Tensor places;   ///< int32 [rows, k]; -1: dropped
  Tensor weights;  ///< [rows, k]; no data: 1
  Tensor y;        ///< [places, width]
};
/// y[r] = sum over j, in order, of weights[r, j] * x[places[r, j]].
struct CombineRowsArgs {
  Tensor x;        ///< [places, width]
  Tensor places;   ///< int32 [rows, k]; -1: dropped
  Tensor weights;  ///< [rows, k]; no data: 1
  Tensor y;        ///< [rows, width], overwritten
};
/// dots[r, j] = the product of x[r] and y[places[r, j]]; 0 of a choice that is dropped.
struct RowDotsArgs {
  Tensor x;       ///< [rows, width]
  Tensor y;       ///< [places, width]
  Tensor places;  ///< int32 [rows, k]; -1: dropped
  Tensor dots;    ///< [rows, k], overwritten
};

/// Adam with decoupled weight decay (Loshchilov and Hutter), of any number of weights, none of
/// which overlap. The two corrections are 1 - beta^t.
struct AdamWTensors {
  Tensor weight, gradient;  ///< any one shape; weight is updated
  Tensor first, second;     ///< that shape: running means of g and g^2, updated
  double weightDecay = 0;
  Tensor copy{};  ///< that shape, of any type: what copy() makes of the weight behind the update;
                  ///< no data: none
};
struct AdamWArgs {
  std::span<const AdamWTensors> tensors;
  double gradientScale = 1;  ///< clipping: g is gradient times this
  double learningRate = 0, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double correction1 = 1, correction2 = 1;
};
/// velocity = momentum * velocity + gradientScale * gradient + weightDecay * weight;
/// weight -= learningRate * velocity. Of any number of weights, as of adamW.
struct SgdTensors {
  Tensor weight, gradient;  ///< any one shape; weight is updated
  Tensor velocity;          ///< that shape, updated; no data: as if it were zero, and not kept
  double weightDecay = 0;
};
struct SgdArgs {
  std::span<const SgdTensors> tensors;
  double gradientScale = 1;
  double learningRate = 0, momentum = 0;
};

/// Of one shape, as copy() takes them.
struct TensorCopy {
  Tensor from, to;
};

/// The type of what kernels keep of tensors of `type`: statistics of rows, and sums over them.
constexpr DType statisticsType(DType type) { return isNarrow(type) ? DType::Float32 : type; }

class Kernels {
 public:
  virtual ~Kernels() = default;
  /// Nothing is computed, and no element touched.
  virtual bool dry() const { return false; }
  /// Whose memory operands lie in.
  virtual Device device() const { return {}; }

  /// See inSequence(). abandonSequence() forgets what was called since the sequence began.
  virtual void beginSequence() {}
  virtual void endSequence() {}
  virtual void abandonSequence() noexcept {}

  virtual void gemm(const GemmArgs& args) = 0;
  virtual void fillZero(const Tensor& x) = 0;
  /// The two have one shape, of any rank; where types differ each element is rounded to nearest.
  /// Rows of both may be strided.
  virtual void copy(const Tensor& from, const Tensor& to) = 0;
  /// Each of these, in any order, in as few launches as a GPU can.
  virtual void copyAll(std::span<const TensorCopy> all) {
    for (const auto& [from, to] : all) copy(from, to);
  }
  /// y [rows, n] += bias [n] in each row. Rows of y may be strided.
  virtual void addBias(const Tensor& bias, const Tensor& y) = 0;
  /// db [n] = column sums of dy [rows, n] + beta * db, rows of all columns in one order. Rows of dy
  /// may be strided.
  virtual void biasGradient(const Tensor& dy, const Tensor& db, double beta) = 0;
  /// to += from, of one shape. Rows of both may be strided.
  virtual void add(const Tensor& from, const Tensor& to) = 0;

  /// Of how many slices of the rows a norm's backward can leave sums, which spare the gradients of
  /// the weights a second look at dy and x; 0: it takes no `sums`.
  virtual int64_t normSlices(const NormSlicesArgs&) const { return 0; }

  virtual void layerNorm(const LayerNormArgs& args) = 0;
  virtual void layerNormBackward(const LayerNormBackwardArgs& args) = 0;
  virtual void layerNormWeights(const LayerNormWeightArgs& args) = 0;

  /// GELU in its tanh form: y = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
  virtual void gelu(const Tensor& x, const Tensor& y) = 0;
  /// dx may be dy.
  virtual void geluBackward(const Tensor& dy, const Tensor& x, const Tensor& dx) = 0;

  virtual void rmsNorm(const RmsNormArgs& args) = 0;
  virtual void rmsNormBackward(const RmsNormBackwardArgs& args) = 0;
  virtual void rmsNormWeights(const RmsNormWeightArgs& args) = 0;

  virtual void rotary(const RotaryArgs& args) = 0;

  /// y [rows, n] = g / (1 + exp(-g)) * u, where a row of x [rows, 2 n] is g and then u (Shazeer).
  virtual void swiGlu(const Tensor& x, const Tensor& y) = 0;
  /// dx [rows, 2 n] may be x.
  virtual void swiGluBackward(const Tensor& dy, const Tensor& x, const Tensor& dx) = 0;

  virtual void attention(const AttentionArgs& args, Arena& scratch) = 0;
  virtual void attentionBackward(const AttentionBackwardArgs& args, Arena& scratch) = 0;
  virtual void attentionBlock(const AttentionBlockArgs& args, Arena& scratch) = 0;
  virtual void attentionBlockBackward(const AttentionBlockBackwardArgs& args, Arena& scratch) = 0;
  virtual void attentionMerge(const AttentionMergeArgs& args) = 0;

  virtual void embedding(const EmbeddingArgs& args) = 0;
  virtual void embeddingWeights(const EmbeddingWeightArgs& args) = 0;

  virtual void logitStatistics(const LogitStatisticsArgs& args) = 0;
  /// Returns the sum of the counted rows' losses in nats, not scaled, in row order: the same bits
  /// on all ranks that have a part of the vocabulary.
  virtual double crossEntropy(const CrossEntropyArgs& args) = 0;

  virtual void route(const RouteArgs& args) = 0;
  virtual void countChoices(const CountChoicesArgs& args) = 0;
  virtual void placeTokens(const PlaceTokensArgs& args) = 0;
  virtual RouterLosses routerGradient(const RouterGradientArgs& args) = 0;
  virtual void spreadRows(const SpreadRowsArgs& args) = 0;
  virtual void combineRows(const CombineRowsArgs& args) = 0;
  virtual void rowDots(const RowDotsArgs& args) = 0;

  virtual void adamW(const AdamWArgs& args) = 0;
  virtual void sgd(const SgdArgs& args) = 0;
  /// Adds the squares of all elements of all of these to `sum`, exactly.
  virtual void addSquares(std::span<const Tensor> all, ExactSum& sum) = 0;
};

/// Calls body(), whose kernels a GPU may keep until it returns, and then launch together, where
/// that is `wanted`. So it must not enqueue anything else on their stream that is to come between
/// them, nor tell others that they are done; where the host waits for a result, it gets it. Not
/// within another one.
template <class Body>
void inSequence(Kernels& kernels, bool wanted, const Body& body) {
  if (!wanted) return body();
  kernels.beginSequence();
  try {
    body();
  } catch (...) {
    kernels.abandonSequence();
    throw;
  }
  kernels.endSequence();
}

}  // namespace tutti::parallel
