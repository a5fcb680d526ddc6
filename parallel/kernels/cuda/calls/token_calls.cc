// The calls that look rows up by ids: token embeddings and the loss.

#include <numeric>

#include "parallel/kernels/cuda/cuda_kernels.h"
#include "parallel/kernels/cuda/operand.h"
#include "parallel/kernels/cuda/queue.h"
#include "parallel/kernels/cuda/vectorized/vectorized.h"

namespace tutti::parallel {

using namespace cuda;

namespace {

/// `here` rows of a vocabulary, from `firstId` on, of `all`; 0: there are no others.
struct Vocabulary {
  int64_t here, firstId, all;
  VocabularyPart part() const { return {firstId, here}; }
  int64_t end() const { return all == 0 ? here : all; }
};

}  // namespace

void CudaKernels::embedding(const EmbeddingArgs& args) {
  EmbeddingArgs a = args;
  widen(a.tokens, a.positions, a.x);
  requireOperands(a);
  const bool doubles = isDouble(a.x), learned = a.positions.data != nullptr;
  const Vocabulary vocabulary{a.tokens.shape[0], a.firstId, a.vocabulary};
  const Embedding call{.tokenIds = numbersOf(a.tokenIds),
                       .at = numbersOf(a.at),
                       .tokens = elementsOf(args.tokens),
                       .positions = elementsOf(args.positions),
                       .x = elementsOf(args.x),
                       .part = vocabulary.part(),
                       .rows = sizeOf32(a.tokenIds.count()),
                       .context = sizeOf32(a.tokenIds.shape[1]),
                       .width = sizeOf32(width(a.tokens)),
                       .positionRows = learned ? sizeOf32(a.positions.shape[0]) : 0};
  if (learned && a.at.data != nullptr)
    queue_->checkValues("embedding: id ", a.at, 0, a.positions.shape[0]);
  queue_->checkValues("embedding: id ", a.tokenIds, 0, vocabulary.end());
  queue_->start("embedding", ChosenMemoryBound{memoryBound_, call}, doubles);
  queue_->finish("embedding");
}

void CudaKernels::embeddingWeights(const EmbeddingWeightArgs& args) {
  EmbeddingWeightArgs a = args;
  widen(a.dx, a.dTokens, a.dPositions);
  requireOperands(a);
  const bool doubles = isDouble(a.dx), learned = a.dPositions.data != nullptr;
  const Vocabulary vocabulary{a.dTokens.shape[0], a.firstId, a.vocabulary};
  const int64_t count = a.tokenIds.count();
  auto* const scratch = queue_->scratch<int32_t>(3 * count + sortingNumbers(count));
  const SumByRow tokens{.tokenIds = numbersOf(a.tokenIds),
                        .at = nullptr,
                        .part = vocabulary.part(),
                        .dx = elementsOf(args.dx),
                        .to = elementsOf(args.dTokens),
                        .rowOf = scratch,
                        .next = scratch + count,
                        .hasPrevious = scratch + 2 * count,
                        .sorting = scratch + 3 * count,
                        .count = sizeOf32(count),
                        .context = sizeOf32(a.tokenIds.shape[1]),
                        .width = sizeOf32(width(a.dTokens)),
                        .accumulate = a.betaTokens != 0,
                        .clears = a.betaTokens == 0};
  if (learned && a.at.data != nullptr)
    queue_->checkValues("embeddingWeights: id ", a.at, 0, a.dPositions.shape[0]);
  queue_->checkValues("embeddingWeights: id ", a.tokenIds, 0, vocabulary.end());
  queue_->start("embeddingWeights", ChosenMemoryBound{memoryBound_, tokens}, doubles);
  if (learned) {
    SumByRow positions = tokens;
    positions.tokenIds = nullptr;
    positions.at = numbersOf(a.at);
    positions.part = {0, a.dPositions.shape[0]};
    positions.to = elementsOf(args.dPositions);
    positions.accumulate = a.betaPositions != 0;
    positions.clears = a.betaPositions == 0;
    queue_->start("embeddingWeights", ChosenMemoryBound{memoryBound_, positions}, doubles);
  }
  queue_->finish("embeddingWeights");
}

void CudaKernels::logitStatistics(const LogitStatisticsArgs& args) {
  LogitStatisticsArgs a = args;
  widen(a.logits, a.statistics);
  requireOperands(a);
  const bool doubles = isDouble(a.logits);
  const Vocabulary vocabulary{width(a.logits), a.firstId, a.vocabulary};
  const LogitStatistics call{.logits = elementsOf(args.logits),
                             .statistics = elementsOf(args.statistics),
                             .labels = numbersOf(a.labels),
                             .part = vocabulary.part(),
                             .rows = sizeOf32(a.labels.count()),
                             .width = sizeOf32(width(a.logits)),
                             .stride = rowStride(a.logits)};
  queue_->checkValues("logitStatistics: id ", a.labels, -1, vocabulary.end(), 0);
  queue_->start("logitStatistics", ChosenMemoryBound{memoryBound_, call}, doubles);
  queue_->finish("logitStatistics");
}

double CudaKernels::crossEntropy(const CrossEntropyArgs& args) {
  CrossEntropyArgs a = args;
  widen(a.logits, a.statistics);
  requireOperands(a);
  const bool doubles = isDouble(a.logits);
  const Vocabulary vocabulary{width(a.logits), a.firstId, a.vocabulary};
  const bool isWhole = a.statistics.data == nullptr;
  const int64_t count = a.labels.count();
  auto* const losses = queue_->results<double>(count);
  const CrossEntropy call{.logits = elementsOf(args.logits),
                          .statistics = elementsOf(args.statistics),
                          .labels = numbersOf(a.labels),
                          .part = vocabulary.part(),
                          .losses = losses,
                          .rows = sizeOf32(count),
                          .width = sizeOf32(width(a.logits)),
                          .ranks = isWhole ? 1 : sizeOf32(a.statistics.shape[0]),
                          .gradient = a.gradient,
                          .scale = a.scale,
                          .stride = rowStride(a.logits)};
  queue_->checkValues("crossEntropy: id ", a.labels, -1, vocabulary.end(), 0);
  queue_->start("crossEntropy", ChosenMemoryBound{memoryBound_, call}, doubles);
  queue_->finish("crossEntropy", true);
  return std::accumulate(losses, losses + count, 0.0);
}

}  // namespace tutti::parallel
