#include "parallel/kernels/host/attention.h"

#include <algorithm>
#include <cmath>

#include "parallel/kernels/host/attention_scratch.h"
#include "parallel/kernels/host/blas.h"
#include "parallel/kernels/operands.h"

namespace tutti::parallel::host {

namespace {

struct Dims {
  int64_t batch, context, heads, kvHeads, headWidth;
  int64_t width;    // of a row of out
  int64_t columns;  // of a row of qkv

  Dims(const Tensor& out, int64_t headCount, int64_t kvHeadCount)
      : batch(out.shape[0]),
        context(out.shape[1]),
        heads(headCount),
        kvHeads(kvHeadCount),
        headWidth(out.shape[2] / headCount),
        width(out.shape[2]),
        columns((headCount + 2 * kvHeadCount) * headWidth) {}
  double scale() const { return 1 / std::sqrt(static_cast<double>(headWidth)); }
  int64_t headsPerKv() const { return heads / kvHeads; }
};

/// One head's queries, and the keys and values that serve it: [context, headWidth] each, rows
/// `columns` apart.
template <class T>
struct Head {
  T *q, *k, *v;
  int64_t stride;

  Head(const Tensor& qkv, const Dims& dims, int64_t batch, int64_t head)
      : q(qkv.as<T>() + batch * dims.context * dims.columns + head * dims.headWidth),
        k(qkv.as<T>() + batch * dims.context * dims.columns +
          (dims.heads + head / dims.headsPerKv()) * dims.headWidth),
        v(k + dims.kvHeads * dims.headWidth),
        stride(dims.columns) {}
};

template <class T>
T* headOf(const Tensor& x, const Dims& dims, int64_t batch, int64_t head) {
  return x.as<T>() + batch * dims.context * dims.width + head * dims.headWidth;
}

template <class T>
void headForward(const Head<T>& h, T* out, T* logSumExp, const Dims& dims, T* scores,
                 const Leaves<T>& leaves) {
  const T scale = static_cast<T>(dims.scale());
  for (int64_t begin = 0; begin < dims.context; begin += kQueryRows) {
    const int64_t rows = std::min(kQueryRows, dims.context - begin), keys = begin + rows;
    gemm<T>({keys, rows, dims.headWidth, false, true}, {h.k, h.stride},
            {h.q + begin * h.stride, h.stride}, 0, {scores, rows});
    leaves.softmax(scores, keys, rows, begin, scale, logSumExp + begin);
    gemm<T>({rows, dims.headWidth, keys, true, false}, {scores, rows}, {h.v, h.stride}, 0,
            {out + begin * dims.width, dims.width});
  }
}

template <class T>
struct BackwardRows {
  const T *dOut, *out, *logSumExp;
  T *p, *dS;  ///< scratch, [context, block rows]: transposed, as in forward
  T* dots;    ///< scratch, [block rows]
};

/// `first`: of those whose keys and values these are; the others add to their gradients.
template <class T>
void headBackward(const Head<T>& h, const Head<T>& d, const BackwardRows<T>& x, const Dims& dims,
                  bool first, const Leaves<T>& leaves) {
  const T scale = static_cast<T>(dims.scale());
  const int64_t w = dims.headWidth;
  const int64_t last = (dims.context - 1) / kQueryRows * kQueryRows;
  // The last block sees all keys, so it can overwrite dK and dV and the others add to them.
  for (int64_t begin = last; begin >= 0; begin -= kQueryRows) {
    const int64_t rows = std::min(kQueryRows, dims.context - begin), keys = begin + rows;
    const double beta = first && begin == last ? 0 : 1;
    const Matrix<const T> q{h.q + begin * h.stride, h.stride};
    const Matrix<const T> dOut{x.dOut + begin * dims.width, dims.width};
    gemm<T>({keys, rows, w, false, true}, {h.k, h.stride}, q, 0, {x.p, rows});
    gemm<T>({keys, rows, w, false, true}, {h.v, h.stride}, dOut, 0, {x.dS, rows});
    for (int64_t r = 0; r < rows; ++r)
      x.dots[r] = leaves.dot(dOut.data + r * dims.width, x.out + (begin + r) * dims.width, w);
    leaves.softmaxBackward(x.p, x.dS, keys, rows, begin, scale, x.logSumExp + begin, x.dots);
    gemm<T>({keys, w, rows, false, false}, {x.p, rows}, dOut, beta, {d.v, d.stride});
    gemm<T>({keys, w, rows, false, false}, {x.dS, rows}, q, beta, {d.k, d.stride});
    gemm<T>({rows, w, keys, true, false}, {x.dS, rows}, {h.k, h.stride}, 0,
            {d.q + begin * d.stride, d.stride});
  }
}

}  // namespace

template <class T>
void attention(const AttentionArgs& args, const Leaves<T>& leaves, Arena& scratch) {
  requireOperands(args);
  const Dims dims(args.out, args.heads, args.kvHeads);
  const ArenaScope scope(scratch);
  T* scores = scratch.allocate(TypeOf<T>::value, forwardScratch(dims.context)).template as<T>();
  T* logSumExp = args.logSumExp.as<T>();
  for (int64_t b = 0; b < dims.batch; ++b)
    for (int64_t h = 0; h < dims.heads; ++h, logSumExp += dims.context)
      headForward<T>(Head<T>(args.qkv, dims, b, h), headOf<T>(args.out, dims, b, h), logSumExp,
                     dims, scores, leaves);
}

template <class T>
void attentionBackward(const AttentionBackwardArgs& args, const Leaves<T>& leaves, Arena& scratch) {
  requireOperands(args);
  const Dims dims(args.out, args.heads, args.kvHeads);
  const ArenaScope scope(scratch);
  const Shape block = backwardScratch(dims.context);
  BackwardRows<T> rows{};
  rows.p = scratch.allocate(TypeOf<T>::value, block).template as<T>();
  rows.dS = scratch.allocate(TypeOf<T>::value, block).template as<T>();
  rows.dots = scratch.allocate(TypeOf<T>::value, {block[1]}).template as<T>();
  rows.logSumExp = args.logSumExp.as<T>();
  for (int64_t b = 0; b < dims.batch; ++b)
    for (int64_t h = 0; h < dims.heads; ++h, rows.logSumExp += dims.context) {
      rows.dOut = headOf<T>(args.dOut, dims, b, h);
      rows.out = headOf<T>(args.out, dims, b, h);
      headBackward<T>(Head<T>(args.qkv, dims, b, h), Head<T>(args.dQkv, dims, b, h), rows, dims,
                      h % dims.headsPerKv() == 0, leaves);
    }
}

template void attention<float>(const AttentionArgs&, const Leaves<float>&, Arena&);
template void attention<double>(const AttentionArgs&, const Leaves<double>&, Arena&);
template void attentionBackward<float>(const AttentionBackwardArgs&, const Leaves<float>&, Arena&);
template void attentionBackward<double>(const AttentionBackwardArgs&, const Leaves<double>&,
                                        Arena&);

}  // namespace tutti::parallel::host
