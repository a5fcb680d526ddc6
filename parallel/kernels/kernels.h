#pragma once

// Kernels: every computation of the training library on one device, behind one interface. Modules
// call nothing else, so a device is added by implementing this, and a dry run is an implementation
// that only counts.
//
// Conventions. Tensors of one call have one floating type, except that in a call with bfloat16 or
// float16 any of them may be float32: what is summed over many rows (gradients of weights) or kept
// for backward (means, deviations, logarithms of sums) should be. Sums of these are accumulated in
// float32 and rounded once. "Rows" are the product of all dimensions but the last. `beta` is 0 or
// 1: overwrite the result, or add to it. Every result is a function of the operands' values and
// shapes alone (not of addresses or earlier calls), which the deterministic mode relies on.
// Operands are contiguous, unless it says that their rows may be strided.
//
// A vocabulary may be cut over ranks, each of which has some of its rows: from `firstId` on. Ids
// and labels are of the whole of it; `vocabulary` says how many there are, 0 that none are
// elsewhere.
//
// Errors. Throws InvalidArgument, naming the operands, when shapes or types disagree, when a tensor
// that must be contiguous is not, and when a token id or a label is outside the vocabulary;
// Unsupported for an element type that the device does not compute in; OutOfMemory when `scratch`
// cannot grow. Results are then unspecified. NaN and infinity are data, not errors.

#include <span>

#include "parallel/kernels/exact_sum.h"
#include "parallel/tensor/arena.h"
#include "parallel/tensor/tensor.h"

namespace tutti::parallel {

/// c [m, n] = a * b + beta * c, where a is [m, k] or, transposed, [k, m]; b is [k, n] or [n, k].
/// Rows may be strided, columns must be adjacent.
struct GemmArgs {
  Tensor a, b, c;
  bool transposeA = false;
  bool transposeB = false;
  double beta = 0;
};

struct LayerNormArgs {
  Tensor x;             ///< [rows, width]
  Tensor weight, bias;  ///< [width]
  Tensor y;             ///< [rows, width]
  Tensor mean, rstd;    ///< [rows], written by forward, read by backward
  double epsilon = 1e-5;
};
struct LayerNormBackwardArgs {
  Tensor dy, x;       ///< [rows, width]
  Tensor weight;      ///< [width]
  Tensor mean, rstd;  ///< [rows], of forward
  Tensor residual;    ///< [rows, width] added to dx; no data: nothing is added
  Tensor dx;          ///< [rows, width]; may be `dy` or `residual`
};
struct LayerNormWeightArgs {
  Tensor dy, x;           ///< [rows, width]
  Tensor mean, rstd;      ///< [rows], of forward
  Tensor dWeight, dBias;  ///< [width]
  double betaWeight = 0, betaBias = 0;
};

/// y = x / sqrt(mean(x^2) + epsilon) * weight, row by row (Zhang and Sennrich).
struct RmsNormArgs {
  Tensor x;       ///< [rows, width]
  Tensor weight;  ///< [width]
  Tensor y;       ///< [rows, width]
  Tensor rstd;    ///< [rows], written by forward, read by backward
  double epsilon = 1e-5;
};
struct RmsNormBackwardArgs {
  Tensor dy, x;     ///< [rows, width]
  Tensor weight;    ///< [width]
  Tensor rstd;      ///< [rows], of forward
  Tensor residual;  ///< [rows, width] added to dx; no data: nothing is added
  Tensor dx;        ///< [rows, width]; may be `dy` or `residual`
};
struct RmsNormWeightArgs {
  Tensor dy, x;    ///< [rows, width]
  Tensor rstd;     ///< [rows], of forward
  Tensor dWeight;  ///< [width]
  double beta = 0;
};

/// Rotary positions (Su et al.): in each head, element i and element i + headWidth / 2 of position
/// t are turned together by an angle of t. The arrangement is that of Hugging Face's Llama.
struct RotaryArgs {
  Tensor x;             ///< [batch, context, columns]; its first `heads` heads are turned in place
  Tensor cosine, sine;  ///< [at least context, headWidth / 2], of the angles
  int64_t heads = 1, headWidth = 0;
  bool back = false;  ///< the other way around, as gradients go
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
};
struct AttentionBackwardArgs {
  Tensor dOut;       ///< [batch, context, heads * head width]
  Tensor qkv;        ///< [batch, context, (heads + 2 kvHeads) * head width]
  Tensor out;        ///< [batch, context, heads * head width], of forward
  Tensor logSumExp;  ///< [batch, heads, context], of forward
  Tensor dQkv;       ///< as qkv, overwritten
  int64_t heads = 1, kvHeads = 1;
};

/// x[b, t] = tokens[tokenIds[b, t]] + positions[t]; of an id whose row is elsewhere, without it.
struct EmbeddingArgs {
  Tensor tokenIds;   ///< int32 [batch, context]
  Tensor tokens;     ///< [rows of the vocabulary, width]
  Tensor positions;  ///< [at least context, width]; no data: nothing is added
  Tensor x;          ///< [batch, context, width]
  int64_t firstId = 0, vocabulary = 0;
};
struct EmbeddingWeightArgs {
  Tensor tokenIds;    ///< int32 [batch, context]
  Tensor dx;          ///< [batch, context, width]
  Tensor dTokens;     ///< [rows of the vocabulary, width]
  Tensor dPositions;  ///< [at least context, width]; rows beyond the context get beta * themselves;
                      ///< no data: there are no positions
  double betaTokens = 0, betaPositions = 0;
  int64_t firstId = 0, vocabulary = 0;
};

/// What one rank's logits contribute to the softmax of each row: the largest of them, the sum of
/// exp(logit - largest), and the label's logit, or 0 where that is elsewhere or does not count.
struct LogitStatisticsArgs {
  Tensor logits;      ///< [rows, part of the vocabulary]
  Tensor labels;      ///< int32 [rows]; -1: this row does not count
  Tensor statistics;  ///< [rows, 3], of the logits' statisticsType(); overwritten
  int64_t firstId = 0, vocabulary = 0;
};
struct CrossEntropyArgs {
  Tensor logits;      ///< [rows, part]; replaced by the gradient when `gradient` is true
  Tensor labels;      ///< int32 [rows]; -1: this row does not count
  Tensor statistics;  ///< [ranks, rows, 3]: of all ranks that have a part, in their order
  double scale = 1;   ///< of the gradient: one over the global number of counted rows
  bool gradient = true;
  int64_t firstId = 0, vocabulary = 0;
};

/// Adam with decoupled weight decay (Loshchilov and Hutter). The two corrections are 1 - beta^t.
struct AdamWArgs {
  Tensor weight, gradient;   ///< any one shape; weight is updated
  Tensor first, second;      ///< that shape: running means of g and g^2, updated
  double gradientScale = 1;  ///< clipping: g is gradient times this
  double learningRate = 0, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weightDecay = 0;
  double correction1 = 1, correction2 = 1;
};
/// velocity = momentum * velocity + gradientScale * gradient + weightDecay * weight;
/// weight -= learningRate * velocity.
struct SgdArgs {
  Tensor weight, gradient;  ///< any one shape; weight is updated
  Tensor velocity;          ///< that shape, updated; no data: as if it were zero, and not kept
  double gradientScale = 1;
  double learningRate = 0, weightDecay = 0, momentum = 0;
};

/// The type of what kernels keep of tensors of `type`: statistics of rows, and sums over them.
constexpr DType statisticsType(DType type) { return isNarrow(type) ? DType::Float32 : type; }

class Kernels {
 public:
  virtual ~Kernels() = default;
  /// Nothing is computed, and no element touched.
  virtual bool dry() const { return false; }

  virtual void gemm(const GemmArgs& args) = 0;
  virtual void fillZero(const Tensor& x) = 0;
  /// The two have one shape, of any rank; where types differ each element is rounded to nearest.
  virtual void copy(const Tensor& from, const Tensor& to) = 0;
  /// y [rows, n] += bias [n] in each row. Rows of y may be strided.
  virtual void addBias(const Tensor& bias, const Tensor& y) = 0;
  /// db [n] = column sums of dy [rows, n] + beta * db, rows in ascending order. Rows of dy may be
  /// strided.
  virtual void biasGradient(const Tensor& dy, const Tensor& db, double beta) = 0;
  /// to += from, of one shape.
  virtual void add(const Tensor& from, const Tensor& to) = 0;

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

  virtual void embedding(const EmbeddingArgs& args) = 0;
  virtual void embeddingWeights(const EmbeddingWeightArgs& args) = 0;

  virtual void logitStatistics(const LogitStatisticsArgs& args) = 0;
  /// Returns the sum of the counted rows' losses in nats, not scaled, in row order: the same bits
  /// on all ranks that have a part of the vocabulary.
  virtual double crossEntropy(const CrossEntropyArgs& args) = 0;

  virtual void adamW(const AdamWArgs& args) = 0;
  virtual void sgd(const SgdArgs& args) = 0;
  /// Adds the squares of all elements to `sum`, exactly.
  virtual void addSquares(const Tensor& x, ExactSum& sum) = 0;
};

}  // namespace tutti::parallel
