// The calls of a router of experts, and of the rows that are moved for it.

#include <algorithm>

#include "parallel/kernels/cuda/cuda_kernels.h"
#include "parallel/kernels/cuda/operand.h"
#include "parallel/kernels/cuda/placing.h"
#include "parallel/kernels/cuda/queue.h"
#include "parallel/kernels/cuda/vectorized/vectorized.h"

namespace tutti::parallel {

using namespace cuda;

namespace {

/// Of `sequences` with as many rows each.
Pieces piecesOf(const Tensor& chosen, int64_t sequences, int64_t experts, int64_t early) {
  return {.rowsOfSequence = chosen.count() == 0 ? 1 : sizeOf32(chosen.shape[0] / sequences),
          .early = sizeOf32(early),
          .choices = sizeOf32(chosen.shape[1]),
          .experts = sizeOf32(experts)};
}

Placed placedOf(const Tensor& rows, const Tensor& placed, const Tensor& weights,
                const Tensor& places) {
  return {.rows = elementsOf(rows),
          .placed = elementsOf(placed),
          .weights = elementsOf(weights),
          .places = numbersOf(places),
          .count = sizeOf32(places.count()),
          .choices = sizeOf32(places.shape[1]),
          .width = sizeOf32(rows.shape[1]),
          .placedRows = sizeOf32(placed.shape[0])};
}

}  // namespace

void CudaKernels::route(const RouteArgs& args) {
  RouteArgs a = args;
  widen(a.logits, a.probabilities, a.logSumExp, a.weights);
  requireOperands(a);
  const bool doubles = isDouble(a.logits);
  // Experts are chosen by probabilities that are not rounded to 16 bits.
  Tensor wide = args.probabilities;
  if (isNarrow(wide.type))
    wide = Tensor(queue_->scratch<float>(wide.count()), DType::Float32, wide.shape);
  queue_->start("route",
                Route{.logits = elementsOf(args.logits),
                      .probabilities = elementsOf(args.probabilities),
                      .logSumExp = elementsOf(args.logSumExp),
                      .weights = elementsOf(args.weights),
                      .wide = elementsOf(wide),
                      .chosen = a.chosen.as<int32_t>(),
                      .rows = sizeOf32(a.logits.shape[0]),
                      .experts = sizeOf32(a.logits.shape[1]),
                      .choices = sizeOf32(a.chosen.shape[1]),
                      .normalized = a.normalized},
                doubles);
}

void CudaKernels::countChoices(const CountChoicesArgs& a) {
  requireOperands(a);
  const int64_t experts = a.choices.shape[2];
  const CountChoices call{.chosen = numbersOf(a.chosen),
                          .counts = a.choices.as<int32_t>(),
                          .count = sizeOf32(a.chosen.count()),
                          .pieces = piecesOf(a.chosen, a.choices.shape[0], experts, a.early)};
  queue_->checkValues("countChoices: expert: ", a.chosen, 0, experts);
  fillZero(a.choices);
  queue_->start("countChoices", call);
  queue_->finish("countChoices");
}

void CudaKernels::placeTokens(const PlaceTokensArgs& a) {
  requireOperands(a);
  const int64_t experts = a.pieces.shape[2];
  auto* const loads =
      reinterpret_cast<int64_t*>(queue_->scratch<char>(placingBytes(a.chosen.count(), experts)));
  auto* const here = queue_->results<int64_t>(experts);
  const PlaceTokens call{.chosen = numbersOf(a.chosen),
                         .counts = a.pieces.as<int32_t>(),
                         .places = a.places.as<int32_t>(),
                         .choices = a.choices.as<int32_t>(),
                         .loads = loads,
                         .pieces = piecesOf(a.chosen, a.pieces.shape[0], experts, a.early),
                         .count = sizeOf32(a.chosen.count()),
                         .sequences = sizeOf32(a.pieces.shape[0]),
                         .piecesOfSequence = sizeOf32(a.pieces.shape[1]),
                         .own = {sizeOf32(a.own[0]), sizeOf32(a.own[1])},
                         .capacity = a.capacity};
  queue_->checkValues("placeTokens: expert: ", a.chosen, 0, experts);
  queue_->start("placeTokens", call);
  queue_->copy("placeTokens", here, loads, a.loads.size_bytes());
  queue_->finish("placeTokens", true);
  std::copy_n(here, experts, a.loads.begin());
}

RouterLosses CudaKernels::routerGradient(const RouterGradientArgs& args) {
  RouterGradientArgs a = args;
  widen(a.dWeights, a.probabilities, a.logSumExp, a.weights, a.dLogits);
  requireOperands(a);
  const bool doubles = isDouble(a.dLogits);
  const int64_t count = a.dLogits.shape[0], experts = a.dLogits.shape[1];
  // Of each row two numbers, and behind them their sums.
  auto* const balances = queue_->scratch<double>(2 * count + 2);
  double* const zs = balances + count;
  auto* const sums = queue_->results<RouterLosses>(1);
  const RouterGradient call{.dWeights = elementsOf(args.dWeights),
                            .probabilities = elementsOf(args.probabilities),
                            .logSumExp = elementsOf(args.logSumExp),
                            .weights = elementsOf(args.weights),
                            .dLogits = elementsOf(args.dLogits),
                            .chosen = numbersOf(a.chosen),
                            .choices = numbersOf(a.choices),
                            .balances = balances,
                            .zs = zs,
                            .rows = sizeOf32(count),
                            .experts = sizeOf32(experts),
                            .choicesOfRow = sizeOf32(a.chosen.shape[1]),
                            .rowsOfSequence = count == 0 ? 1 : sizeOf32(count / a.choices.shape[0]),
                            .normalized = a.normalized,
                            .length = static_cast<double>(a.length),
                            .balance = a.balance,
                            .z = a.z};
  queue_->checkValues("routerGradient: expert: ", a.chosen, 0, experts);
  queue_->start("routerGradient", call, doubles);
  queue_->copy("routerGradient", sums, zs + count, sizeof *sums);
  queue_->finish("routerGradient", true);
  return *sums;
}

void CudaKernels::spreadRows(const SpreadRowsArgs& args) {
  SpreadRowsArgs a = args;
  widen(a.x, a.weights, a.y);
  requireOperands(a);
  const bool doubles = isDouble(a.x);
  const SpreadRows call{placedOf(args.x, args.y, args.weights, a.places)};
  queue_->checkValues("spreadRows: place: ", a.places, -1, a.y.shape[0]);
  queue_->start("spreadRows", ChosenMemoryBound{memoryBound_, call}, doubles);
  queue_->finish("spreadRows");
}

void CudaKernels::combineRows(const CombineRowsArgs& args) {
  CombineRowsArgs a = args;
  widen(a.x, a.weights, a.y);
  requireOperands(a);
  const bool doubles = isDouble(a.y);
  CombineRows call{placedOf(args.y, args.x, args.weights, a.places)};
  call.count = sizeOf32(a.y.shape[0]);
  queue_->checkValues("combineRows: place: ", a.places, -1, a.x.shape[0]);
  queue_->start("combineRows", ChosenMemoryBound{memoryBound_, call}, doubles);
  queue_->finish("combineRows");
}

void CudaKernels::rowDots(const RowDotsArgs& args) {
  RowDotsArgs a = args;
  widen(a.x, a.y, a.dots);
  requireOperands(a);
  const bool doubles = isDouble(a.x);
  const RowDots call{placedOf(args.x, args.y, args.dots, a.places)};
  queue_->checkValues("rowDots: place: ", a.places, -1, a.y.shape[0]);
  queue_->start("rowDots", ChosenMemoryBound{memoryBound_, call}, doubles);
  queue_->finish("rowDots");
}

}  // namespace tutti::parallel
