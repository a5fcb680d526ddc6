// The calls of attention. That of whole sequences is a block whose queries and keys are parts of
// one tensor.

#include <cmath>

#include "parallel/kernels/cuda/attention/attentions.h"
#include "parallel/kernels/cuda/cuda_kernels.h"
#include "parallel/kernels/cuda/operand.h"
#include "parallel/kernels/cuda/queue.h"
#include "parallel/kernels/cuda/vectorized/vectorized.h"

namespace tutti::parallel {

using namespace cuda;

namespace {

AttentionReaches reachesOf(const AttentionReach& reach) {
  const bool hasStarts = reach.starts.data != nullptr;
  const int64_t documents = hasStarts ? reach.starts.shape[1] : 0;
  return {.window = reach.window,
          .starts = numbersOf(reach.starts),
          .startsStride = documents,
          .documents = sizeOf32(documents)};
}

AttentionSizes sizesOf(const AttentionBlockArgs& a) {
  // Heads times rows are counted by 32 bits, as are the keys' by less.
  sizeOf32(a.logSumExp.count());
  sizeOf32(a.key.count());
  return {.batch = sizeOf32(a.query.shape[0]),
          .heads = sizeOf32(a.heads),
          .kvHeads = sizeOf32(a.kvHeads),
          .headWidth = sizeOf32(a.query.shape[2] / a.heads),
          .queries = sizeOf32(a.query.shape[1]),
          .keys = sizeOf32(a.key.shape[1]),
          .firstQuery = a.firstQuery,
          .firstKey = a.firstKey,
          .scale = 1 / std::sqrt(static_cast<double>(a.query.shape[2] / a.heads)),
          .reach = reachesOf(a.reach)};
}

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

void forward(Queue& queue, const char* operation, const AttentionBlockArgs& a,
             Attentions& attentions, bool doubles) {
  const AttentionForward x{.sizes = sizesOf(a),
                           .query = headRowsOf(a.query),
                           .key = headRowsOf(a.key),
                           .value = headRowsOf(a.value),
                           .out = headRowsOf(a.out),
                           .logSumExp = headScalarsOf(a.logSumExp)};
  queue.start(operation, ChosenAttention<AttentionForward>{&attentions, x}, doubles);
}

/// Which kernels there are.
struct Families {
  Attentions& attentions;
  MemoryBoundFamily vectorized;
};

/// `adds`: to gradients that are there.
void backward(Queue& queue, const char* operation, const AttentionBlockBackwardArgs& a, bool adds,
              const Families& families, bool doubles) {
  const AttentionSizes sizes = sizesOf({a.query, a.key, a.value, a.out, a.logSumExp, a.heads,
                                        a.kvHeads, a.firstQuery, a.firstKey, a.reach});
  AttentionBackward x{.sizes = sizes,
                      .dOut = headRowsOf(a.dOut),
                      .query = headRowsOf(a.query),
                      .key = headRowsOf(a.key),
                      .value = headRowsOf(a.value),
                      .dQuery = headRowsOf(a.dQuery),
                      .dKey = headRowsOf(a.dKey),
                      .dValue = headRowsOf(a.dValue),
                      .logSumExp = headScalarsOf(a.logSumExp),
                      .dots = {},
                      .adds = adds,
                      .scratch = nullptr};
  const int64_t scores = a.logSumExp.count(), before = families.attentions.scratchOf(x);
  void* dotsOfRows = nullptr;
  if (doubles) {
    dotsOfRows = queue.scratch<double>(scores);
  } else {
    x.scratch = queue.scratch<float>(before + scores);
    dotsOfRows = x.scratch + before;
  }
  x.dots = headScalarsOf(
      Tensor(dotsOfRows, doubles ? DType::Float64 : DType::Float32, a.logSumExp.shape));
  const AttentionDots dots{
      .sizes = sizes, .dOut = x.dOut, .out = headRowsOf(a.out), .dots = x.dots};
  queue.start(operation, ChosenMemoryBound{families.vectorized, dots}, doubles);
  queue.start(operation, ChosenAttention<AttentionBackward>{&families.attentions, x}, doubles);
}

}  // namespace

void CudaKernels::attention(const AttentionArgs& args, Arena&) {
  AttentionArgs a = args;
  widen(a.qkv, a.out, a.logSumExp);
  requireOperands(a);
  forward(*queue_, "attention", blockOf(args), *attentions_, isDouble(a.out));
}

void CudaKernels::attentionBackward(const AttentionBackwardArgs& args, Arena&) {
  AttentionBackwardArgs a = args;
  widen(a.dOut, a.qkv, a.out, a.logSumExp, a.dQkv);
  requireOperands(a);
  const AttentionBlockArgs x =
      blockOf({args.qkv, args.out, args.logSumExp, args.heads, args.kvHeads, args.reach});
  const AttentionBlockArgs d =
      blockOf({args.dQkv, args.out, args.logSumExp, args.heads, args.kvHeads, args.reach});
  backward(*queue_, "attentionBackward",
           {.dOut = args.dOut,
            .query = x.query,
            .key = x.key,
            .value = x.value,
            .out = args.out,
            .logSumExp = args.logSumExp,
            .dQuery = d.query,
            .dKey = d.key,
            .dValue = d.value,
            .heads = args.heads,
            .kvHeads = args.kvHeads,
            .reach = args.reach},
           false, {*attentions_, memoryBound_}, isDouble(a.out));
}

void CudaKernels::attentionBlock(const AttentionBlockArgs& args, Arena&) {
  AttentionBlockArgs a = args;
  widen(a.query, a.key, a.value, a.out, a.logSumExp);
  requireOperands(a);
  forward(*queue_, "attentionBlock", args, *attentions_, isDouble(a.out));
}

void CudaKernels::attentionBlockBackward(const AttentionBlockBackwardArgs& args, Arena&) {
  AttentionBlockBackwardArgs a = args;
  widen(a.dOut, a.query, a.key, a.value, a.out, a.logSumExp, a.dQuery, a.dKey, a.dValue);
  requireOperands(a);
  backward(*queue_, "attentionBlockBackward", args, true, {*attentions_, memoryBound_},
           isDouble(a.out));
}

void CudaKernels::attentionMerge(const AttentionMergeArgs& args) {
  AttentionMergeArgs a = args;
  widen(a.part, a.partLogSumExp, a.out, a.logSumExp);
  requireOperands(a);
  const AttentionBlockArgs block{
      .query = a.part, .key = a.part, .logSumExp = a.logSumExp, .heads = a.heads};
  const AttentionMerge merge{.sizes = sizesOf(block),
                             .part = headRowsOf(args.part),
                             .out = headRowsOf(args.out),
                             .partLogSumExp = headScalarsOf(args.partLogSumExp),
                             .logSumExp = headScalarsOf(args.logSumExp)};
  queue_->start("attentionMerge", ChosenMemoryBound{memoryBound_, merge}, isDouble(a.out));
}

}  // namespace tutti::parallel
