#include "bench/gpu/memory_launches.h"

#include "parallel/kernels/cuda/gemm/gemms.h"
#include "parallel/kernels/cuda/operand.h"
#include "parallel/kernels/cuda/vectorized/vectorized.h"
#include "parallel/tensor/check.h"

namespace tutti::bench {

using namespace parallel;
using namespace parallel::cuda;

namespace {

void check(cudaError_t error) {
  if (error != cudaSuccess) fail(ErrorCode::Cuda, cudaGetErrorString(error));
}

/// By the kernels that calls take; none of it is float64.
template <class Arguments>
void launchChosen(const Arguments& x, CUstream_st* stream) {
  check(enqueue(ChosenMemoryBound{memoryBoundOfEnvironment(), x}, false, stream));
}

}  // namespace

void launchAttentionDots(const AttentionDotsOperands& x, CUstream_st* stream) {
  const int32_t heads = sizeOf32(x.dots.shape[1]), context = sizeOf32(x.dots.shape[2]);
  const AttentionDots dots{.sizes = {.batch = sizeOf32(x.dots.shape[0]),
                                     .heads = heads,
                                     .kvHeads = heads,
                                     .headWidth = sizeOf32(x.dOut.shape[2]) / heads,
                                     .queries = context,
                                     .keys = context,
                                     .firstQuery = 0,
                                     .firstKey = 0,
                                     .scale = 1,
                                     .reach = {}},
                           .dOut = headRowsOf(x.dOut),
                           .out = headRowsOf(x.out),
                           .dots = headScalarsOf(x.dots)};
  launchChosen(dots, stream);
}

void launchSumOfSplits(const SplitsOperands& x, CUstream_st* stream) {
  const int64_t splits = x.partial.shape[1], rows = x.c.shape[1], columns = x.c.shape[2];
  const GemmProduct product{.a = {},
                            .b = {},
                            .c = {elementsOf(x.c), columns},
                            .rows = sizeOf32(rows),
                            .columns = sizeOf32(columns),
                            .depth = 1,
                            .isKMajorA = true,
                            .isKMajorB = true,
                            .accumulate = true,
                            .batch = sizeOf32(x.c.shape[0]),
                            .strides = {.c = rows * columns}};
  check(enqueue(SumSplits{.partial = x.partial.as<float>(),
                          .stride = columns,
                          .splitStride = rows * columns,
                          .batchStride = splits * rows * columns,
                          .splits = sizeOf32(splits),
                          .out = outputOf(product)},
                stream));
}

void launchLogitStatistics(const LogitStatisticsArgs& x, CUstream_st* stream) {
  launchChosen(LogitStatistics{.logits = elementsOf(x.logits),
                               .statistics = elementsOf(x.statistics),
                               .labels = numbersOf(x.labels),
                               .part = {x.firstId, width(x.logits)},
                               .rows = sizeOf32(x.labels.count()),
                               .width = sizeOf32(width(x.logits)),
                               .stride = rowStride(x.logits)},
               stream);
}

void launchCrossEntropy(const CrossEntropyOperands& x, CUstream_st* stream) {
  const CrossEntropyArgs& a = x.args;
  const bool isWhole = a.statistics.data == nullptr;
  launchChosen(CrossEntropy{.logits = elementsOf(a.logits),
                            .statistics = elementsOf(a.statistics),
                            .labels = numbersOf(a.labels),
                            .part = {a.firstId, width(a.logits)},
                            .losses = x.losses.as<double>(),
                            .rows = sizeOf32(a.labels.count()),
                            .width = sizeOf32(width(a.logits)),
                            .ranks = isWhole ? 1 : sizeOf32(a.statistics.shape[0]),
                            .gradient = a.gradient,
                            .scale = a.scale,
                            .stride = rowStride(a.logits)},
               stream);
}

void launchSumOfSquares(const SquaresOperands& x, CUstream_st* stream) {
  auto* const limbs = static_cast<unsigned long long*>(x.limbs.data);
  auto tables = tablesOf<1>(kSumElements, [&](const TensorTable<1>& table) {
    check(enqueue(AddSquares{.table = table, .limbs = limbs}, false, stream));
  });
  for (const Tensor& each : x.all) tables.add({elementsOf(each)}, each.count());
  tables.finish();
}

void launchRouterGradient(const RouterGradientOperands& x, CUstream_st* stream) {
  const RouterGradientArgs& a = x.args;
  const int64_t rows = a.dLogits.shape[0];
  auto* const losses = x.losses.as<double>();
  check(enqueue(RouterGradient{.dWeights = elementsOf(a.dWeights),
                               .probabilities = elementsOf(a.probabilities),
                               .logSumExp = elementsOf(a.logSumExp),
                               .weights = elementsOf(a.weights),
                               .dLogits = elementsOf(a.dLogits),
                               .chosen = numbersOf(a.chosen),
                               .choices = numbersOf(a.choices),
                               .balances = losses,
                               .zs = losses + rows,
                               .rows = sizeOf32(rows),
                               .experts = sizeOf32(a.dLogits.shape[1]),
                               .choicesOfRow = sizeOf32(a.chosen.shape[1]),
                               .rowsOfSequence = sizeOf32(rows / a.choices.shape[0]),
                               .normalized = a.normalized,
                               .length = static_cast<double>(a.length),
                               .balance = a.balance,
                               .z = a.z},
                false, stream));
}

void launchNothing(CUstream_st* stream) {
  CombineRows nothing{};  // into a row that has no columns
  nothing.count = 1;
  check(enqueue(nothing, false, stream));
}

}  // namespace tutti::bench
