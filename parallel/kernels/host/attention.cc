#include "parallel/kernels/host/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "parallel/kernels/host/attention_scratch.h"
#include "parallel/kernels/host/blas.h"
#include "parallel/kernels/operands.h"

namespace tutti::parallel::host {

namespace {

struct Dims {
  int64_t batch, queries, keys, heads, kvHeads, headWidth;
  int64_t firstQuery, firstKey;  // positions
  int64_t ahead;                 // of the first query before the first key
  int64_t blockRows;             // queries of a block
  AttentionReach reach;

  explicit Dims(const AttentionBlockArgs& a)
      : batch(a.query.shape[0]),
        queries(a.query.shape[1]),
        keys(a.key.shape[1]),
        heads(a.heads),
        kvHeads(a.kvHeads),
        headWidth(a.query.shape[2] / a.heads),
        firstQuery(a.firstQuery),
        firstKey(a.firstKey),
        ahead(firstQuery - firstKey),
        blockRows(queryRows(headWidth)),
        reach(a.reach) {}
  double scale() const { return 1 / std::sqrt(static_cast<double>(headWidth)); }
  /// Of narrow heads splitting factors takes longer than is won by it.
  Factors factors() const { return headWidth >= kWideHead ? Factors::Any : Factors::Few; }
  int64_t headsPerKv() const { return heads / kvHeads; }
  /// Of the keys, those that a query before `end` sees.
  int64_t seenBefore(int64_t end) const { return std::clamp<int64_t>(ahead + end, 0, keys); }
  /// How many keys the query `begin` sees besides the first; no more than make a difference.
  int64_t before(int64_t begin) const { return std::min(ahead + begin, keys); }
  /// Whether queries do not see all keys before them.
  bool isShort() const { return reach.window > 0 || reach.starts.data != nullptr; }
  /// The first key that a query sees, or that one before it would, where it sees none.
  int64_t firstSeen(int64_t sequence, int64_t query) const {
    const int64_t position = firstQuery + query;
    int64_t first = reach.window > 0 ? position - reach.window + 1 : 0;
    if (reach.starts.data != nullptr) {
      const int64_t documents = reach.starts.shape[1];
      const int32_t* const starts = reach.starts.as<int32_t>() + sequence * documents;
      const int32_t* const next = std::upper_bound(starts, starts + documents, position);
      if (next != starts) first = std::max<int64_t>(first, next[-1]);
    }
    return std::clamp<int64_t>(first - firstKey, 0, keys);
  }
};

/// What queries, keys and values of AttentionArgs are of its qkv.
AttentionBlockArgs blockOf(const AttentionArgs& a) {
  const int64_t width = a.out.shape[2], kvWidth = width / a.heads * a.kvHeads;
  return {.query = a.qkv.part(2, 0, width),
          .key = a.qkv.part(2, width, kvWidth),
          .value = a.qkv.part(2, width + kvWidth, kvWidth),
          .out = a.out,
          .logSumExp = a.logSumExp,
          .heads = a.heads,
          .kvHeads = a.kvHeads,
          .reach = a.reach};
}

/// One head's rows of x [batch, length, heads * head width].
template <class T>
Matrix<T> headOf(const Tensor& x, int64_t batch, int64_t head, const Dims& dims) {
  return {x.as<T>() + batch * x.strides[0] + head * dims.headWidth, x.strides[1]};
}
/// One head's row of logSumExp [batch, heads, queries].
template <class T>
T* rowOf(const Tensor& logSumExp, int64_t batch, int64_t head) {
  return logSumExp.as<T>() + batch * logSumExp.strides[0] + head * logSumExp.strides[1];
}
template <class T>
Matrix<T> rowsFrom(const Matrix<T>& matrix, int64_t row) {
  return {matrix.data + row * matrix.stride, matrix.stride};
}
template <class T>
Matrix<const T> constant(const Matrix<T>& matrix) {
  return {matrix.data, matrix.stride};
}

/// One head's queries, and the keys and values that serve it.
template <class T>
struct Head {
  int64_t sequence;
  Matrix<const T> q, k, v;

  Head(const AttentionBlockArgs& a, const Dims& dims, int64_t batch, int64_t head)
      : sequence(batch),
        q(constant(headOf<T>(a.query, batch, head, dims))),
        k(constant(headOf<T>(a.key, batch, head / dims.headsPerKv(), dims))),
        v(constant(headOf<T>(a.value, batch, head / dims.headsPerKv(), dims))) {}
};

/// A block of queries, and the keys that any of them sees: [from, from + keys).
struct QueryBlock {
  int64_t begin, rows, from, keys;

  QueryBlock(const Dims& dims, int64_t sequence, int64_t first)
      : begin(first),
        rows(std::min(dims.blockRows, dims.queries - first)),
        from(dims.isShort() ? dims.firstSeen(sequence, first) : 0),
        keys(dims.seenBefore(first + rows) - from) {}
  /// As Dims has it, of these keys.
  int64_t before(const Dims& dims) const { return dims.before(begin) - from; }
};

/// Sets what [keys, rows] has of keys before those that their queries see.
template <class T>
void setUnseen(T* x, T value, const QueryBlock& block, const Dims& dims, int64_t sequence) {
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t first = dims.firstSeen(sequence, block.begin + r) - block.from;
    for (int64_t k = 0; k < std::min(first, block.keys); ++k) x[k * block.rows + r] = value;
  }
}

/// The softmax, where the window or a document begins behind the first key.
template <class T>
void shortSoftmax(T* scores, const QueryBlock& block, const Dims& dims, int64_t sequence, T scale,
                  T* logSumExp, const ElementwiseKernels<T>& elementwise) {
  constexpr T kNone = -std::numeric_limits<T>::infinity();
  setUnseen(scores, kNone, block, dims, sequence);
  elementwise.softmax(scores, block.keys, block.rows, block.before(dims), scale, logSumExp);
  setUnseen(scores, T{0}, block, dims, sequence);  // NaN of a query that sees no key
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t query = block.begin + r;
    if (dims.firstSeen(sequence, query) >= dims.seenBefore(query + 1)) logSumExp[r] = kNone;
  }
}

template <class T>
void headForward(const Head<T>& h, Matrix<T> out, T* logSumExp, const Dims& dims, T* scores,
                 const ElementwiseKernels<T>& elementwise) {
  const T scale = static_cast<T>(dims.scale());
  for (int64_t begin = 0; begin < dims.queries; begin += dims.blockRows) {
    const QueryBlock block(dims, h.sequence, begin);
    const int64_t rows = block.rows, keys = block.keys;
    gemm<T>({keys, rows, dims.headWidth, false, true}, rowsFrom(h.k, block.from),
            rowsFrom(h.q, begin), 0, {scores, rows}, dims.factors());
    if (dims.isShort())
      shortSoftmax(scores, block, dims, h.sequence, scale, logSumExp + begin, elementwise);
    else
      elementwise.softmax(scores, keys, rows, block.before(dims), scale, logSumExp + begin);
    gemm<T>({rows, dims.headWidth, keys, true, false}, {scores, rows}, rowsFrom(h.v, block.from), 0,
            rowsFrom(out, begin), dims.factors());
  }
}

template <class T>
void forward(const AttentionBlockArgs& args, const ElementwiseKernels<T>& elementwise,
             Arena& scratch) {
  const Dims dims(args);
  const ArenaScope scope(scratch);
  T* const scores =
      scratch.allocate(TypeOf<T>::value, forwardScratch(dims.queries, dims.keys, dims.headWidth))
          .template as<T>();
  for (int64_t b = 0; b < dims.batch; ++b)
    for (int64_t h = 0; h < dims.heads; ++h)
      headForward<T>(Head<T>(args, dims, b, h), headOf<T>(args.out, b, h, dims),
                     rowOf<T>(args.logSumExp, b, h), dims, scores, elementwise);
}

template <class T>
struct BackwardRows {
  Matrix<const T> dOut, out;
  const T* logSumExp;
  Matrix<T> dQ, dK, dV;
  T *p, *dS;  ///< scratch, [keys, block rows]: transposed, as in forward
  T* dots;    ///< scratch, [block rows]
};

/// Which gradients are added to what is there, and not written over it.
struct Adds {
  bool queries, keys;
};

/// Nothing, where no query has written.
template <class T>
void fillZero(const Matrix<T>& x, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r) std::fill_n(rowsFrom(x, r).data, width, T{0});
}

template <class T>
void headBackward(const Head<T>& h, const BackwardRows<T>& x, const Dims& dims, Adds adds,
                  const ElementwiseKernels<T>& elementwise) {
  const T scale = static_cast<T>(dims.scale());
  const int64_t w = dims.headWidth;
  const int64_t last = (dims.queries - 1) / dims.blockRows * dims.blockRows;
  // The last block sees all keys that any sees, so it can overwrite dK and dV and the others add to
  // them; but not where it is short.
  if (dims.isShort() && !adds.keys) {
    fillZero(x.dK, dims.keys, w);
    fillZero(x.dV, dims.keys, w);
    adds.keys = true;
  }
  for (int64_t begin = last; begin >= 0; begin -= dims.blockRows) {
    const QueryBlock block(dims, h.sequence, begin);
    const int64_t rows = block.rows, keys = block.keys;
    const double beta = !adds.keys && begin == last ? 0 : 1;
    const Matrix<const T> q = rowsFrom(h.q, begin), dOut = rowsFrom(x.dOut, begin);
    const Matrix<const T> k = rowsFrom(h.k, block.from);
    gemm<T>({keys, rows, w, false, true}, k, q, 0, {x.p, rows}, dims.factors());
    gemm<T>({keys, rows, w, false, true}, rowsFrom(h.v, block.from), dOut, 0, {x.dS, rows},
            dims.factors());
    for (int64_t r = 0; r < rows; ++r)
      x.dots[r] = elementwise.dot(rowsFrom(dOut, r).data, rowsFrom(x.out, begin + r).data, w);
    elementwise.softmaxBackward(x.p, x.dS, keys, rows, block.before(dims), scale,
                                x.logSumExp + begin, x.dots);
    if (dims.isShort())
      for (T* const ofPairs : {x.p, x.dS}) setUnseen(ofPairs, T{0}, block, dims, h.sequence);
    gemm<T>({keys, w, rows, false, false}, {x.p, rows}, dOut, beta, rowsFrom(x.dV, block.from),
            dims.factors());
    gemm<T>({keys, w, rows, false, false}, {x.dS, rows}, q, beta, rowsFrom(x.dK, block.from),
            dims.factors());
    gemm<T>({rows, w, keys, true, false}, {x.dS, rows}, k, adds.queries ? 1 : 0,
            rowsFrom(x.dQ, begin), dims.factors());
  }
}

/// `adds`: to gradients that are there; otherwise each is written first, by the first of the heads
/// whose keys and values they are.
template <class T>
void backward(const AttentionBlockBackwardArgs& a, bool adds,
              const ElementwiseKernels<T>& elementwise, Arena& scratch) {
  const AttentionBlockArgs block{a.query, a.key,     a.value,      a.out,      a.logSumExp,
                                 a.heads, a.kvHeads, a.firstQuery, a.firstKey, a.reach};
  const Dims dims(block);
  const ArenaScope scope(scratch);
  const Shape scores = backwardScratch(dims.queries, dims.keys, dims.headWidth);
  BackwardRows<T> rows{};
  rows.p = scratch.allocate(TypeOf<T>::value, scores).template as<T>();
  rows.dS = scratch.allocate(TypeOf<T>::value, scores).template as<T>();
  rows.dots = scratch.allocate(TypeOf<T>::value, {scores[1]}).template as<T>();
  for (int64_t b = 0; b < dims.batch; ++b)
    for (int64_t h = 0; h < dims.heads; ++h) {
      const int64_t kv = h / dims.headsPerKv();
      rows.dOut = constant(headOf<T>(a.dOut, b, h, dims));
      rows.out = constant(headOf<T>(a.out, b, h, dims));
      rows.logSumExp = rowOf<T>(a.logSumExp, b, h);
      rows.dQ = headOf<T>(a.dQuery, b, h, dims);
      rows.dK = headOf<T>(a.dKey, b, kv, dims);
      rows.dV = headOf<T>(a.dValue, b, kv, dims);
      headBackward<T>(Head<T>(block, dims, b, h), rows, dims,
                      {.queries = adds, .keys = adds || h % dims.headsPerKv() != 0}, elementwise);
    }
}

/// out = (out exp(logSumExp) + part exp(partLogSumExp)) / (the sum of these weights), one head's.
template <class T>
void mergeHead(Matrix<T> out, T* logSumExp, Matrix<T> part, const T* partLogSumExp, int64_t queries,
               int64_t width, const ElementwiseKernels<T>& elementwise) {
  for (int64_t q = 0; q < queries; ++q) {
    const double kept = logSumExp[q], taken = partLogSumExp[q], most = std::max(kept, taken);
    if (most == -std::numeric_limits<double>::infinity()) continue;  // neither saw a key
    const double sum = most + std::log(std::exp(kept - most) + std::exp(taken - most));
    elementwise.blend(rowsFrom(out, q).data, rowsFrom(part, q).data,
                      static_cast<T>(std::exp(kept - sum)), static_cast<T>(std::exp(taken - sum)),
                      width);
    logSumExp[q] = static_cast<T>(sum);
  }
}

}  // namespace

template <class T>
void attention(const AttentionArgs& args, const ElementwiseKernels<T>& elementwise,
               Arena& scratch) {
  requireOperands(args);
  forward<T>(blockOf(args), elementwise, scratch);
}

template <class T>
void attentionBackward(const AttentionBackwardArgs& a, const ElementwiseKernels<T>& elementwise,
                       Arena& scratch) {
  requireOperands(a);
  const AttentionBlockArgs x = blockOf({a.qkv, a.out, a.logSumExp, a.heads, a.kvHeads, a.reach});
  const AttentionBlockArgs d = blockOf({a.dQkv, a.out, a.logSumExp, a.heads, a.kvHeads, a.reach});
  backward<T>({.dOut = a.dOut,
               .query = x.query,
               .key = x.key,
               .value = x.value,
               .out = a.out,
               .logSumExp = a.logSumExp,
               .dQuery = d.query,
               .dKey = d.key,
               .dValue = d.value,
               .heads = a.heads,
               .kvHeads = a.kvHeads,
               .reach = a.reach},
              false, elementwise, scratch);
}

template <class T>
void attentionBlock(const AttentionBlockArgs& args, const ElementwiseKernels<T>& elementwise,
                    Arena& scratch) {
  requireOperands(args);
  forward<T>(args, elementwise, scratch);
}

template <class T>
void attentionBlockBackward(const AttentionBlockBackwardArgs& args,
                            const ElementwiseKernels<T>& elementwise, Arena& scratch) {
  requireOperands(args);
  backward<T>(args, true, elementwise, scratch);
}

template <class T>
void attentionMerge(const AttentionMergeArgs& a, const ElementwiseKernels<T>& elementwise) {
  requireOperands(a);
  const AttentionBlockArgs block{.query = a.part, .key = a.part, .heads = a.heads};
  const Dims dims(block);
  for (int64_t b = 0; b < dims.batch; ++b)
    for (int64_t h = 0; h < dims.heads; ++h)
      mergeHead<T>(headOf<T>(a.out, b, h, dims), rowOf<T>(a.logSumExp, b, h),
                   headOf<T>(a.part, b, h, dims), rowOf<T>(a.partLogSumExp, b, h), dims.queries,
                   dims.headWidth, elementwise);
}

#define TUTTI_ATTENTION(T)                                                                       \
  template void attention<T>(const AttentionArgs&, const ElementwiseKernels<T>&, Arena&);        \
  template void attentionBackward<T>(const AttentionBackwardArgs&, const ElementwiseKernels<T>&, \
                                     Arena&);                                                    \
  template void attentionBlock<T>(const AttentionBlockArgs&, const ElementwiseKernels<T>&,       \
                                  Arena&);                                                       \
  template void attentionBlockBackward<T>(const AttentionBlockBackwardArgs&,                     \
                                          const ElementwiseKernels<T>&, Arena&);                 \
  template void attentionMerge<T>(const AttentionMergeArgs&, const ElementwiseKernels<T>&);
TUTTI_ATTENTION(float)
TUTTI_ATTENTION(double)
#undef TUTTI_ATTENTION

}  // namespace tutti::parallel::host
