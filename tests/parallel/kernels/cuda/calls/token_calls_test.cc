// Embeddings and the loss on a GPU against the host's.

#include "tests/parallel/kernels/cuda/compared.h"

namespace tutti::parallel {
namespace {

class CudaTokens : public Compared {};
INSTANTIATE_TEST_SUITE_P(Types, CudaTokens, allTypes, nameOfTypes);

// Rows of part of a vocabulary, by positions in order and by given ones, of which two are alike.
TEST_P(CudaTokens, Embeddings) {
  constexpr int64_t kRows = 9, kWidth = 130, kFirst = 4, kAll = 15;
  const Operand tokenIds = ids({3, 5}, kAll), at = numbers({6, 0, 2, 6, 1}, {5});
  const Operand tokens = grid({kRows, kWidth}, kept()), positions = grid({7, kWidth}, kept());
  const Operand plain = result({3, 5, kWidth}, elements()),
                learned = result({3, 5, kWidth}, elements()),
                placed = result({3, 5, kWidth}, elements());
  const Operand dx = grid({3, 5, kWidth}, elements());
  const Operand dTokens = result({kRows, kWidth}, kept()), more = grid({kRows, kWidth}, kept()),
                dPositions = grid({7, kWidth}, kept()), dPlaced = result({7, kWidth}, kept());
  both([&](const Side& side) {
    EmbeddingArgs a{.tokenIds = side(tokenIds),
                    .tokens = side(tokens),
                    .positions = {},
                    .x = side(plain),
                    .at = {},
                    .firstId = kFirst,
                    .vocabulary = kAll};
    side.kernels.embedding(a);
    a.positions = side(positions), a.x = side(learned);
    side.kernels.embedding(a);
    a.at = side(at), a.x = side(placed);
    side.kernels.embedding(a);
    EmbeddingWeightArgs w{.tokenIds = side(tokenIds),
                          .dx = side(dx),
                          .dTokens = side(dTokens),
                          .dPositions = side(dPositions),
                          .at = {},
                          .betaPositions = 1,
                          .firstId = kFirst,
                          .vocabulary = kAll};
    side.kernels.embeddingWeights(w);
    w.dTokens = side(more), w.dPositions = side(dPlaced), w.at = side(at);
    w.betaTokens = 1, w.betaPositions = 0;
    side.kernels.embeddingWeights(w);
  });
  for (const Operand& x : {plain, learned, placed}) expectExact(x, "embedding");
  for (const Operand& d : {dTokens, more, dPositions, dPlaced}) expectExact(d, "embeddingWeights");
}

/// In the type in which the host adds, too.
class CudaTokensInFloat64 : public Compared {};
INSTANTIATE_TEST_SUITE_P(Types, CudaTokensInFloat64,
                         testing::Values(Types{DType::Float64, DType::Float64}), nameOfTypes);

// Sums of numbers of any size, in the order of tokens: to the bit.
TEST_P(CudaTokensInFloat64, EmbeddingGradientsAreInTheOrderOfTokens) {
  const Operand tokenIds = ids({2, 300}, 3), dx = random({2, 300, 3}, elements());
  const Operand dTokens = random({3, 3}, elements()), dPositions = random({300, 3}, elements());
  both([&](const Side& side) {
    side.kernels.embeddingWeights({.tokenIds = side(tokenIds),
                                   .dx = side(dx),
                                   .dTokens = side(dTokens),
                                   .dPositions = side(dPositions),
                                   .at = {},
                                   .betaTokens = 1,
                                   .betaPositions = 1});
  });
  expectExact(dTokens, "dTokens");
  expectExact(dPositions, "dPositions");
}

// Three parts of a vocabulary, of which the last has nothing, and the second has gaps of 6 columns
// between its rows; one row does not count.
TEST_P(CudaTokens, CrossEntropy) {
  constexpr int64_t kRows = 5, kAll = 300, kWidths[] = {170, 130, 0};
  const Operand labels = numbers({0, 169, -1, 170, 299}, {kRows});
  const Operand statistics = result({3, kRows, 3}, kept());
  std::vector<Operand> logits;
  for (const int64_t width : kWidths) logits.push_back(random({kRows, width}, elements(), 3));
  const Operand withGaps = random({kRows, kWidths[1] + 6}, elements(), 3);
  logits[1] = withGaps.columns(0, kWidths[1]);
  const auto call = [&](const auto& visit) {
    int64_t first = 0;
    for (size_t rank = 0; rank < 3; first += kWidths[rank++]) visit(rank, first);
  };
  both([&](const Side& side) {
    call([&](size_t rank, int64_t first) {
      side.kernels.logitStatistics({.logits = side(logits[rank]),
                                    .labels = side(labels),
                                    .statistics = side(statistics).rows(int64_t(rank), 1),
                                    .firstId = first,
                                    .vocabulary = kAll});
    });
  });
  // Sums of 170 numbers up to 1, of which each is as good as exp: 3 roundings, and those of an
  // argument up to 30.
  constexpr double kOfSums = 170 * 40;
  const Operand ofSome{statistics.gpu.rows(0, 2), statistics.exact.rows(0, 2)};
  expectNear(ofSome, kOfSums, "statistics");
  const Operand same = rounded(statistics, kept());
  std::vector<double> losses[2];
  both([&](const Side& side) {
    auto& own = losses[side.isGpu() ? 0 : 1];
    own.clear();
    call([&](size_t rank, int64_t first) {
      CrossEntropyArgs a{.logits = side(logits[rank]),
                         .labels = side(labels),
                         .statistics = side(same),
                         .scale = 0.25,
                         .gradient = false,
                         .firstId = first,
                         .vocabulary = kAll};
      own.push_back(side.kernels.crossEntropy(a));
      a.gradient = true;
      own.push_back(side.kernels.crossEntropy(a));
    });
  });
  for (size_t i = 0; i < losses[1].size(); ++i) {
    EXPECT_EQ(losses[0][i], losses[0][0]) << "the same on all ranks";
    EXPECT_NEAR(losses[0][i], losses[1][i], 1e-12 * std::fabs(losses[1][i]));  // both in float64
  }
  for (const Operand& x : logits) expectNear(x, 40, "gradient");
  expectExact(withGaps.columns(kWidths[1], 6), "what lies between rows");
}

}  // namespace
}  // namespace tutti::parallel
