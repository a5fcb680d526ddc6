#include "parallel/kernels/operands.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <span>

namespace tutti::parallel {

namespace {

/// Same shape, type and adjacent elements for all; names the operation and the first that differs.
template <class... Others>
void requireSame(const char* operation, const Tensor& first, const Others&... others) {
  const auto check = [&](const Tensor& other) {
    require(other.shape == first.shape && other.type == first.type && other.contiguous() &&
                first.contiguous(),
            operation, ": ", first, " and ", other, " do not go together");
  };
  (check(others), ...);
}

void requireVector(const char* operation, const Tensor& vector, int64_t count, DType type) {
  require(vector.count() == count && vector.type == type && vector.contiguous(), operation, ": ",
          count, " elements of ", toString(type), " are needed, not ", vector);
}

/// Of slices of rows of so many columns.
void requireSums(const char* operation, const Tensor& sums, int64_t each, int64_t columns) {
  if (sums.data == nullptr) return;
  require(sums.shape.rank() == 3 && sums.shape[0] == each && sums.shape[2] == columns &&
              sums.type == DType::Float32 && sums.contiguous() &&
              reinterpret_cast<uintptr_t>(sums.data) % 16 == 0,
          operation, ": ", each, " float32 sums of each slice's ", columns,
          " columns are needed, at a multiple of 16 bytes, not ", sums);
}

void requireIds(const char* operation, const Tensor& ids, int64_t count) {
  require(ids.count() == count && ids.type == DType::Int32 && ids.contiguous(), operation, ": ",
          count, " int32 ids are needed, not ", ids);
}

/// A matrix whose rows may be strided, or contiguous of any rank.
void requireRows(const char* operation, const Tensor& x) {
  require(x.contiguous() || (x.shape.rank() == 2 && x.strides[1] == 1), operation, ": ", x,
          " must be a matrix of adjacent columns");
}

/// Rows of adjacent elements, wherever they are.
void requireAdjacent(const char* operation, const Tensor& x) {
  require(x.contiguous() || (x.shape.rank() > 0 && x.strides[-1] == 1), operation, ": ", x,
          " must have rows of adjacent elements");
}

/// Where tokens are, of a table's `rows`: none are given, or one for each.
void requireAt(const char* operation, const Tensor& at, int64_t context, int64_t rows) {
  if (at.data == nullptr)
    require(rows >= context, operation, ": a table of ", rows, " positions for ", context);
  else
    requireIds(operation, at, context);
}

/// `here` rows of a vocabulary, from `firstId` on, of `all`; 0: there are no others.
void requireVocabulary(const char* operation, int64_t here, int64_t firstId, int64_t all) {
  require(firstId >= 0 && firstId + here <= (all == 0 ? here : all), operation, ": rows ", firstId,
          " to ", firstId + here, " of a vocabulary of ", all == 0 ? here : all);
}

/// One for each row; a row may be empty. Rows of logits may have gaps between them.
void requireLabels(const char* operation, const Tensor& labels, const Tensor& logits) {
  requireIds(operation, labels, labels.count());
  require(logits.rowStride().has_value(), operation, ": logits ", logits, " with strides ",
          logits.strides, " are not rows of adjacent elements that are evenly apart");
  require(logits.count() == labels.count() * width(logits), operation, ": ", labels, " labels of ",
          logits);
}

/// `x` [batch, context, width] goes with the ids and the tables of tokens and positions.
void requireEmbedding(const char* operation, const Tensor& ids, const Tensor& tokens,
                      const Tensor& positions, const Tensor& at, const Tensor& x) {
  require(ids.shape.rank() == 2 && tokens.shape.rank() == 2, operation, ": ids ", ids, ", tokens ",
          tokens);
  const int64_t batch = ids.shape[0], context = ids.shape[1], w = width(tokens);
  requireIds(operation, ids, batch * context);
  for (const Tensor& operand : {tokens, positions, x}) requireContiguous(operation, operand);
  const bool fits =
      positions.data == nullptr ||
      (positions.shape.rank() == 2 && width(positions) == w && positions.type == x.type);
  require(x.shape == Shape({batch, context, w}) && tokens.type == x.type && fits, operation,
          ": ids ", ids, ", tokens ", tokens, ", positions ", positions, ", vectors ", x);
  if (positions.data != nullptr) requireAt(operation, at, context, positions.shape[0]);
}

}  // namespace

int64_t width(const Tensor& x) { return x.shape.rank() == 0 ? 1 : x.shape[-1]; }
int64_t rows(const Tensor& x) { return width(x) == 0 ? 0 : x.count() / width(x); }

int64_t rowStride(const Tensor& x) {
  const std::optional<int64_t> stride = x.rowStride();
  ensure(stride.has_value(), x, " has no rows that are evenly apart");
  return *stride;
}

void requireContiguous(const char* operation, const Tensor& x) {
  require(x.contiguous(), operation, ": ", x, " must be contiguous");
}

int64_t batchOf(const GemmArgs& args) { return args.c.shape.rank() == 3 ? args.c.shape[0] : 1; }

namespace {

/// Where it has a dimension more than `rank` its part of that, else all of it.
Tensor partOfBatch(const Tensor& x, int rank, int64_t index) {
  if (x.shape.rank() != rank + 1) return x;
  std::array<int64_t, kMaxDims> extents{}, strides{};
  for (int d = 0; d < rank; ++d) {
    extents.at(static_cast<size_t>(d)) = x.shape[d + 1];
    strides.at(static_cast<size_t>(d)) = x.strides[d + 1];
  }
  Tensor part = x;
  part.shape = Shape(std::span(extents).first(static_cast<size_t>(rank)));
  part.strides = Shape(std::span(strides).first(static_cast<size_t>(rank)));
  if (x.data != nullptr)
    part.data =
        static_cast<char*>(x.data) + index * x.strides[0] * static_cast<int64_t>(sizeOf(x.type));
  return part;
}

}  // namespace

GemmArgs productOf(const GemmArgs& args, int64_t index) {
  GemmArgs one = args;
  for (Tensor* x : {&one.a, &one.b, &one.c, &one.epilogue.inner, &one.epilogue.residual})
    *x = partOfBatch(*x, 2, index);
  one.epilogue.bias = partOfBatch(one.epilogue.bias, 1, index);
  return one;
}

int64_t summed(const GemmArgs& args) { return args.a.shape[args.transposeA ? 0 : 1]; }
int64_t productColumns(const GemmArgs& args) { return args.b.shape[args.transposeB ? 0 : 1]; }
Tensor leftHalf(const Tensor& inner) {
  return inner.part(inner.shape.rank() - 1, 0, inner.shape[-1] / 2);
}
Tensor rightHalf(const Tensor& inner) {
  return inner.part(inner.shape.rank() - 1, inner.shape[-1] / 2, inner.shape[-1] / 2);
}

namespace {

void requireEpilogue(const GemmArgs& args) {
  const GemmEpilogue& e = args.epilogue;
  const DType type = args.c.type;
  const auto requireMatrix = [type](const char* what, const Tensor& x, const Shape& shape) {
    require(x.shape == shape && x.strides[1] == 1 && x.type == type, what, ": ", shape, " of ",
            toString(type), " is needed, not ", x);
  };
  if (e.bias.data != nullptr) requireVector("gemm's bias", e.bias, productColumns(args), type);
  if (e.residual.data != nullptr) requireMatrix("gemm's residual", e.residual, args.c.shape);
  const bool isGated = e.activation == Activation::SwiGlu;
  const bool isNeeded = e.activation != Activation::None && e.activation != Activation::Gelu;
  require(e.activation != Activation::None || e.inner.data == nullptr, "gemm keeps ", e.inner,
          " for no activation");
  if (isNeeded || e.inner.data != nullptr)
    requireMatrix("gemm's inner", e.inner,
                  {args.c.shape[0], isGated ? 2 * args.c.shape[1] : args.c.shape[1]});
}

}  // namespace

void requireOperands(const GemmArgs& args) {
  if (args.c.shape.rank() == 3) {
    const auto requireBatch = [&](const Tensor& x, int rank) {
      require(x.shape.rank() <= rank || x.shape[0] == batchOf(args), "gemm: ", x, " in a batch of ",
              batchOf(args));
    };
    for (const Tensor& x : {args.a, args.b, args.epilogue.inner, args.epilogue.residual})
      requireBatch(x, 2);
    requireBatch(args.epilogue.bias, 1);
    return requireOperands(productOf(args, 0));
  }
  const Tensor &a = args.a, &b = args.b, &c = args.c;
  const bool matrices = a.shape.rank() == 2 && b.shape.rank() == 2 && c.shape.rank() == 2;
  const int64_t halves = args.epilogue.activation == Activation::SwiGluBackward ? 2 : 1;
  require(matrices && a.shape[args.transposeA ? 1 : 0] == c.shape[0] &&
              b.shape[args.transposeB ? 1 : 0] == summed(args) &&
              halves * productColumns(args) == c.shape[1] && a.strides[1] == 1 &&
              b.strides[1] == 1 && c.strides[1] == 1 && a.type == c.type && b.type == c.type,
          "gemm of ", a, args.transposeA ? " transposed" : "", " and ", b,
          args.transposeB ? " transposed" : "", " into ", c);
  requireEpilogue(args);
}

void requireCopy(const Tensor& from, const Tensor& to) {
  requireAdjacent("copy", from);
  requireAdjacent("copy", to);
  require(from.shape == to.shape, "copy of ", from, " to ", to);
}

void requireAddBias(const Tensor& bias, const Tensor& y) {
  requireVector("addBias", bias, width(y), y.type);
  requireRows("addBias", y);
}

void requireBiasGradient(const Tensor& dy, const Tensor& db) {
  requireVector("biasGradient", db, width(dy), dy.type);
  requireRows("biasGradient", dy);
}

void requireAdd(const Tensor& from, const Tensor& to) {
  requireAdjacent("add", from);
  requireAdjacent("add", to);
  require(from.shape == to.shape && from.type == to.type, "add: ", from, " and ", to,
          " do not go together");
}

void requireOperands(const LayerNormArgs& a) {
  requireSame("layerNorm", a.x, a.y);
  if (a.residual.data != nullptr) requireSame("layerNorm's residual", a.x, a.residual);
  requireVector("layerNorm's weight", a.weight, width(a.x), a.x.type);
  requireVector("layerNorm's bias", a.bias, width(a.x), a.x.type);
  requireVector("layerNorm's mean", a.mean, rows(a.x), a.x.type);
  requireVector("layerNorm's rstd", a.rstd, rows(a.x), a.x.type);
}

void requireOperands(const LayerNormBackwardArgs& a) {
  requireSame("layerNormBackward", a.dy, a.x, a.dx);
  if (a.residual.data != nullptr) requireSame("layerNormBackward's residual", a.dy, a.residual);
  requireVector("layerNormBackward's weight", a.weight, width(a.x), a.x.type);
  requireVector("layerNormBackward's mean", a.mean, rows(a.x), a.x.type);
  requireVector("layerNormBackward's rstd", a.rstd, rows(a.x), a.x.type);
  requireSums("layerNormBackward", a.sums, 2, width(a.x));
}

void requireOperands(const LayerNormWeightArgs& a) {
  requireSame("layerNormWeights", a.dy, a.x);
  requireVector("layerNormWeights' mean", a.mean, rows(a.x), a.x.type);
  requireVector("layerNormWeights' rstd", a.rstd, rows(a.x), a.x.type);
  requireVector("layerNormWeights' dWeight", a.dWeight, width(a.x), a.x.type);
  requireVector("layerNormWeights' dBias", a.dBias, width(a.x), a.x.type);
  requireSums("layerNormWeights", a.sums, 2, width(a.x));
}

void requireGelu(const Tensor& x, const Tensor& y) { requireSame("gelu", x, y); }

void requireGeluBackward(const Tensor& dy, const Tensor& x, const Tensor& dx) {
  requireSame("geluBackward", dy, x, dx);
}

void requireOperands(const RmsNormArgs& a) {
  requireSame("rmsNorm", a.x, a.y);
  if (a.residual.data != nullptr) requireSame("rmsNorm's residual", a.x, a.residual);
  requireVector("rmsNorm's weight", a.weight, width(a.x), a.x.type);
  requireVector("rmsNorm's rstd", a.rstd, rows(a.x), a.x.type);
}

void requireOperands(const RmsNormBackwardArgs& a) {
  requireSame("rmsNormBackward", a.dy, a.x, a.dx);
  if (a.residual.data != nullptr) requireSame("rmsNormBackward's residual", a.dy, a.residual);
  requireVector("rmsNormBackward's weight", a.weight, width(a.x), a.x.type);
  requireVector("rmsNormBackward's rstd", a.rstd, rows(a.x), a.x.type);
  requireSums("rmsNormBackward", a.sums, 1, width(a.x));
}

void requireOperands(const RmsNormWeightArgs& a) {
  requireSame("rmsNormWeights", a.dy, a.x);
  requireVector("rmsNormWeights' rstd", a.rstd, rows(a.x), a.x.type);
  requireVector("rmsNormWeights' dWeight", a.dWeight, width(a.x), a.x.type);
  requireSums("rmsNormWeights", a.sums, 1, width(a.x));
}

void requireSlices(const char* operation, const Tensor& sums, int64_t slices) {
  require(sums.data == nullptr || (slices > 0 && sums.shape[1] == slices), operation,
          " leaves sums of ", slices, " slices of these rows, not ", sums);
}

void requireOperands(const RotaryArgs& a) {
  require(a.x.shape.rank() == 3 && a.x.contiguous() && a.headWidth > 0 && a.headWidth % 2 == 0 &&
              a.heads > 0 && a.heads * a.headWidth <= width(a.x),
          "rotary: ", a.heads, " heads of ", a.headWidth, " in ", a.x);
  const int64_t half = a.headWidth / 2, context = a.x.shape[1];
  for (const Tensor& table : {a.cosine, a.sine})
    require(table.shape.rank() == 2 && table.contiguous() && table.type == a.x.type &&
                table.shape[0] == a.cosine.shape[0] && table.shape[1] == half,
            "rotary: ", context, " positions of ", half, " angles are needed, not ", table);
  requireAt("rotary", a.at, context, a.cosine.shape[0]);
}

void requireSwiGlu(const Tensor& x, const Tensor& y) {
  requireContiguous("swiGlu", x);
  requireContiguous("swiGlu", y);
  require(x.type == y.type && rows(x) == rows(y) && width(x) == 2 * width(y), "swiGlu of ", x,
          " into ", y);
}

void requireSwiGluBackward(const Tensor& dy, const Tensor& x, const Tensor& dx) {
  requireSame("swiGluBackward", x, dx);
  requireContiguous("swiGluBackward", dy);
  require(x.type == dy.type && rows(x) == rows(dy) && width(x) == 2 * width(dy),
          "swiGluBackward of ", dy, " through ", x);
}

namespace {

void requireReach(const char* operation, const AttentionReach& reach, int64_t batch) {
  require(reach.window >= 0, operation, ": a window of ", reach.window);
  if (reach.starts.data == nullptr) return;
  require(reach.starts.type == DType::Int32 && reach.starts.contiguous() &&
              reach.starts.shape.rank() == 2 && reach.starts.shape[0] == batch,
          operation, ": documents of ", batch, " sequences begin at ", reach.starts);
}

}  // namespace

void requireOperands(const AttentionArgs& a) {
  require(a.out.shape.rank() == 3, "attention into ", a.out);
  const int64_t batch = a.out.shape[0], context = a.out.shape[1], wide = a.out.shape[2];
  require(a.heads > 0 && wide % a.heads == 0, "a width of ", wide, " does not split into ", a.heads,
          " heads");
  require(a.kvHeads > 0 && a.heads % a.kvHeads == 0, a.heads, " heads do not share ", a.kvHeads,
          " heads of keys and values evenly");
  const int64_t columns = (a.heads + 2 * a.kvHeads) * (wide / a.heads);
  require(a.out.contiguous() && a.qkv.contiguous() && a.logSumExp.contiguous() &&
              a.qkv.shape == Shape({batch, context, columns}) &&
              a.logSumExp.shape == Shape({batch, a.heads, context}) && a.qkv.type == a.out.type &&
              a.logSumExp.type == a.out.type,
          "attention over ", a.heads, " heads: qkv is ", a.qkv, ", out ", a.out, ", logSumExp ",
          a.logSumExp);
  requireReach("attention", a.reach, batch);
}

void requireOperands(const AttentionBackwardArgs& a) {
  requireOperands(AttentionArgs{a.qkv, a.out, a.logSumExp, a.heads, a.kvHeads, a.reach});
  requireSame("attention backward's dOut", a.out, a.dOut);
  requireSame("attention backward's dQkv", a.qkv, a.dQkv);
}

namespace {

/// Of the same shape as `first`, and with rows of adjacent elements.
void requireRowsLike(const char* operation, const Tensor& first, const Tensor& other) {
  requireAdjacent(operation, other);
  require(other.shape == first.shape && other.type == first.type, operation, ": ", first, " and ",
          other, " do not go together");
}

/// [batch, heads, queries] of queries [batch, queries, heads * head width].
void requireLogSumExp(const char* operation, const Tensor& query, const Tensor& logSumExp,
                      int64_t heads) {
  requireAdjacent(operation, query);
  requireAdjacent(operation, logSumExp);
  require(query.shape.rank() == 3, operation, ": ", query, " are not sequences of rows");
  require(heads > 0 && query.shape[2] % heads == 0, operation, ": a width of ", query.shape[2],
          " does not split into ", heads, " heads");
  require(logSumExp.shape == Shape({query.shape[0], heads, query.shape[1]}) &&
              logSumExp.type == query.type,
          operation, ": ", logSumExp, " of ", query, ", ", heads, " heads");
}

}  // namespace

void requireOperands(const AttentionBlockArgs& a) {
  requireLogSumExp("attentionBlock", a.query, a.logSumExp, a.heads);
  require(a.kvHeads > 0 && a.heads % a.kvHeads == 0, a.heads, " heads do not share ", a.kvHeads,
          " heads of keys and values evenly");
  requireAdjacent("attentionBlock", a.key);
  require(a.key.shape.rank() == 3 && a.key.type == a.query.type &&
              a.key.shape[0] == a.query.shape[0] &&
              a.key.shape[2] == a.query.shape[2] / a.heads * a.kvHeads,
          "attentionBlock: queries ", a.query, " of ", a.heads, " heads, keys ", a.key, " of ",
          a.kvHeads);
  requireRowsLike("attentionBlock", a.key, a.value);
  requireRowsLike("attentionBlock", a.query, a.out);
  require(a.firstQuery >= 0 && a.firstKey >= 0, "attentionBlock: positions from ", a.firstQuery,
          " and ", a.firstKey, " on");
  requireReach("attentionBlock", a.reach, a.query.shape[0]);
}

void requireOperands(const AttentionBlockBackwardArgs& a) {
  requireOperands(AttentionBlockArgs{a.query, a.key, a.value, a.out, a.logSumExp, a.heads,
                                     a.kvHeads, a.firstQuery, a.firstKey, a.reach});
  for (const Tensor& likeQuery : {a.dOut, a.dQuery})
    requireRowsLike("attentionBlockBackward", a.query, likeQuery);
  for (const Tensor& likeKey : {a.dKey, a.dValue})
    requireRowsLike("attentionBlockBackward", a.key, likeKey);
}

void requireOperands(const AttentionMergeArgs& a) {
  requireLogSumExp("attentionMerge", a.part, a.partLogSumExp, a.heads);
  requireRowsLike("attentionMerge", a.part, a.out);
  requireRowsLike("attentionMerge", a.partLogSumExp, a.logSumExp);
}

double seenPairs(int64_t queries, int64_t keys, int64_t ahead, int64_t window) {
  // Query i sees ahead + 1 + i keys, but none of what is fewer than 0, and all of what is more.
  const int64_t first = ahead + 1;
  const int64_t none = std::clamp<int64_t>(-first, 0, queries);
  const int64_t some = std::clamp<int64_t>(keys - first, none, queries);
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  const double triangle = number(some - none) * number(2 * first + none + some - 1) / 2;
  const double all = triangle + number(queries - some) * number(keys);
  // Behind a window are those that a query so much earlier would see.
  return window == 0 ? all : all - seenPairs(queries, keys, ahead - window);
}

void requireOperands(const EmbeddingArgs& a) {
  requireEmbedding("embedding", a.tokenIds, a.tokens, a.positions, a.at, a.x);
  requireVocabulary("embedding", a.tokens.shape[0], a.firstId, a.vocabulary);
}

void requireOperands(const EmbeddingWeightArgs& a) {
  requireEmbedding("embeddingWeights", a.tokenIds, a.dTokens, a.dPositions, a.at, a.dx);
  requireVocabulary("embeddingWeights", a.dTokens.shape[0], a.firstId, a.vocabulary);
}

void requireOperands(const LogitStatisticsArgs& a) {
  requireLabels("logitStatistics", a.labels, a.logits);
  requireVector("logitStatistics", a.statistics, 3 * a.labels.count(), a.logits.type);
  requireVocabulary("logitStatistics", width(a.logits), a.firstId, a.vocabulary);
}

void requireOperands(const CrossEntropyArgs& a) {
  requireLabels("crossEntropy", a.labels, a.logits);
  requireVocabulary("crossEntropy", width(a.logits), a.firstId, a.vocabulary);
  if (a.statistics.data == nullptr) {  // or of no rows
    require(a.labels.count() == 0 || a.vocabulary == 0 || a.vocabulary == width(a.logits),
            "crossEntropy: of a part of the vocabulary, ", width(a.logits), " of ", a.vocabulary,
            ", statistics of all ranks are needed");
    return;
  }
  require(a.statistics.shape.rank() >= 1, "crossEntropy: statistics ", a.statistics);
  requireVector("crossEntropy", a.statistics, a.statistics.shape[0] * a.labels.count() * 3,
                a.logits.type);
}

namespace {

/// A matrix with so many rows; -1: with any.
void requireMatrix(const char* operation, const Tensor& x, int64_t rows, int64_t columns,
                   DType type) {
  require(x.shape.rank() == 2 && x.contiguous() && x.type == type &&
              (rows < 0 || x.shape[0] == rows) && x.shape[1] == columns,
          operation, ": a matrix of ", columns, " columns of ", toString(type), " is needed",
          rows < 0 ? "" : message(", of ", rows, " rows"), ", not ", x);
}

/// Any int32 [rows, k].
void requireChosen(const char* operation, const Tensor& chosen) {
  require(chosen.shape.rank() == 2, operation, ": chosen ", chosen);
  requireMatrix(operation, chosen, -1, chosen.shape[1], DType::Int32);
}

/// Counts, int32 [sequences, ...], of rows of which each sequence has as many, up to `most`.
void requireCounts(const char* operation, const Tensor& counts, int rank, int64_t rows,
                   int64_t most) {
  const bool fits = counts.shape.rank() == rank && counts.type == DType::Int32 &&
                    counts.contiguous() && (rows == 0 || counts.shape[0] > 0);
  require(fits && (rows == 0 || (rows % counts.shape[0] == 0 && rows / counts.shape[0] <= most)),
          operation, ": counts ", counts, " of ", rows, " rows");
}

/// Of pieces, [sequences, pieces, experts]; of each sequence `early` rows are of the first one.
void requirePieces(const char* operation, const Tensor& pieces, int64_t rows, int64_t early) {
  requireCounts(operation, pieces, 3, rows, rows);
  require(early >= 0 && early * pieces.shape[0] <= rows, operation, ": ", early,
          " rows of each sequence are of its first piece here, of ", rows, " rows, counts ",
          pieces);
}

/// Of whole sequences of `length`, [sequences, experts].
void requireChoices(const char* operation, const Tensor& choices, int64_t rows, int64_t length) {
  requireCounts(operation, choices, 2, rows, length);
  require(length > 0, operation, ": sequences of ", length);
}

/// Matrices of as many columns, and places of the rows of one of them.
void requirePlaced(const char* operation, const Tensor& rows, const Tensor& places,
                   const Tensor& weights, const Tensor& placed) {
  require(rows.shape.rank() == 2 && places.shape.rank() == 2, operation, ": rows ", rows,
          ", places ", places);
  requireMatrix(operation, rows, -1, rows.shape[1], rows.type);
  requireMatrix(operation, placed, -1, rows.shape[1], rows.type);
  requireMatrix(operation, places, rows.shape[0], places.shape[1], DType::Int32);
  if (weights.data != nullptr)
    requireMatrix(operation, weights, rows.shape[0], places.shape[1], rows.type);
}

}  // namespace

void requireOperands(const RouteArgs& a) {
  require(a.logits.shape.rank() == 2 && a.chosen.shape.rank() == 2, "route: logits ", a.logits,
          ", chosen ", a.chosen);
  const int64_t count = a.logits.shape[0], k = a.chosen.shape[1];
  require(k > 0 && k <= a.logits.shape[1], "route: ", k, " of ", a.logits.shape[1], " experts");
  requireSame("route", a.logits, a.probabilities);
  requireVector("route's logSumExp", a.logSumExp, count, a.logits.type);
  requireMatrix("route", a.chosen, count, k, DType::Int32);
  requireMatrix("route", a.weights, count, k, a.logits.type);
}

void requireOperands(const CountChoicesArgs& a) {
  requireChosen("countChoices", a.chosen);
  requirePieces("countChoices", a.choices, a.chosen.shape[0], a.early);
  require(a.choices.shape[1] == 2, "countChoices: choices ", a.choices, " of two pieces");
}

void requireOperands(const PlaceTokensArgs& a) {
  requireChosen("placeTokens", a.chosen);
  requireMatrix("placeTokens", a.places, a.chosen.shape[0], a.chosen.shape[1], DType::Int32);
  requirePieces("placeTokens", a.pieces, a.chosen.shape[0], a.early);
  requireChoices("placeTokens", a.choices, a.chosen.shape[0], a.length);
  const Shape& pieces = a.pieces.shape;
  require(a.choices.shape == Shape({pieces[0], pieces[2]}) && a.own[0] >= 0 &&
              a.own[0] < a.own[1] && a.own[1] < pieces[1],
          "placeTokens: pieces ", a.own[0], " and ", a.own[1], " of ", a.pieces, ", choices ",
          a.choices);
  require(static_cast<int64_t>(a.loads.size()) == pieces[2] && a.capacity >= 0,
          "placeTokens: loads of ", a.loads.size(), " experts, choices ", a.choices,
          ", a capacity of ", a.capacity);
}

void requireOperands(const RouterGradientArgs& a) {
  require(a.dLogits.shape.rank() == 2 && a.chosen.shape.rank() == 2, "routerGradient: dLogits ",
          a.dLogits, ", chosen ", a.chosen);
  const int64_t count = a.dLogits.shape[0], k = a.chosen.shape[1];
  requireSame("routerGradient", a.dLogits, a.probabilities);
  requireVector("routerGradient's logSumExp", a.logSumExp, count, a.dLogits.type);
  requireMatrix("routerGradient", a.chosen, count, k, DType::Int32);
  for (const Tensor& x : {a.weights, a.dWeights})
    requireMatrix("routerGradient", x, count, k, a.dLogits.type);
  requireChoices("routerGradient", a.choices, count, a.length);
  require(a.choices.shape[1] == a.dLogits.shape[1], "routerGradient: choices ", a.choices,
          ", dLogits ", a.dLogits);
}

void requireOperands(const SpreadRowsArgs& a) {
  requirePlaced("spreadRows", a.x, a.places, a.weights, a.y);
}

void requireOperands(const CombineRowsArgs& a) {
  requirePlaced("combineRows", a.y, a.places, a.weights, a.x);
}

void requireOperands(const RowDotsArgs& a) {
  requirePlaced("rowDots", a.x, a.places, a.dots, a.y);
  require(a.dots.data != nullptr || a.dots.count() == 0,
          "rowDots: there is nowhere to put the results");
}

void requireOperands(const AdamWTensors& a) {
  requireSame("adamW", a.weight, a.gradient, a.first, a.second);
  if (a.copy.data != nullptr) requireCopy(a.weight, a.copy);
}

void requireOperands(const SgdTensors& a) {
  requireSame("sgd", a.weight, a.gradient);
  if (a.velocity.data != nullptr) requireSame("sgd's velocity", a.weight, a.velocity);
}

}  // namespace tutti::parallel
