// The routing of tokens to experts on a GPU against the host's.

#include <algorithm>

#include "tests/parallel/kernels/cuda/compared.h"

namespace tutti::parallel {
namespace {

class CudaExperts : public Compared {};
INSTANTIATE_TEST_SUITE_P(Types, CudaExperts, allTypes, nameOfTypes);

struct Routing {
  int64_t rows, experts, choices;
};

// Also of logits that are alike, of which lower experts are chosen first. Of fewer experts than a
// warp has lanes, of more than these keep in registers, and of more choices than lanes.
TEST_P(CudaExperts, Routes) {
  for (const auto& [kRows, kExperts, kChoices] :
       {Routing{140, 7, 3}, Routing{3, 150, 4}, Routing{2, 40, 35}, Routing{2, 1, 1}})
    for (const bool normalized : {false, true})
      for (const bool isGrid : {false, true}) {
        const Operand logits =
            isGrid ? grid({kRows, kExperts}, elements()) : random({kRows, kExperts}, elements());
        const Operand probabilities = result({kRows, kExperts}, kept()),
                      logSumExp = result({kRows}, kept()), chosen = result({kRows, kChoices}, kInt),
                      weights = result({kRows, kChoices}, elements());
        both([&](const Side& side) {
          side.kernels.route({.logits = side(logits),
                              .probabilities = side(probabilities),
                              .logSumExp = side(logSumExp),
                              .chosen = side(chosen),
                              .weights = side(weights),
                              .normalized = normalized});
        });
        expectExact(chosen, "chosen");
        expectNear(probabilities, 8, "probabilities");
        expectNear(logSumExp, 8, "logSumExp");
        expectNear(weights, 8, "weights");
      }
}

// Of more experts, too, than a warp keeps in registers.
TEST_P(CudaExperts, RouterGradients) {
  for (const int64_t kExperts : {6, 150}) {
    constexpr int64_t kRows = 12, kChoices = 2;
    const Operand dWeights = random({kRows, kChoices}, elements()),
                  probabilities = grid({kRows, kExperts}, kept()),
                  logSumExp = random({kRows}, kept()), chosen = ids({kRows, kChoices}, kExperts),
                  weights = random({kRows, kChoices}, elements()), choices = ids({3, kExperts}, 20);
    for (const bool normalized : {false, true}) {
      // Of probabilities that are away from zero, by whose sum there is a division.
      const Operand some =
          of(std::vector<double>(kRows * kExperts, 0.125), {kRows, kExperts}, kept());
      const Operand dLogits = result({kRows, kExperts}, elements());
      RouterLosses losses[2];
      both([&](const Side& side) {
        losses[side.isGpu() ? 0 : 1] =
            side.kernels.routerGradient({.dWeights = side(dWeights),
                                         .probabilities = side(normalized ? some : probabilities),
                                         .logSumExp = side(logSumExp),
                                         .chosen = side(chosen),
                                         .weights = side(weights),
                                         .choices = side(choices),
                                         .dLogits = side(dLogits),
                                         .length = 8,
                                         .normalized = normalized,
                                         .balance = 0.5,
                                         .z = 0.25});
      });
      // Products and sums of some numbers below 32, in float64 whatever the type.
      expectNear(dLogits, 100, "dLogits");
      EXPECT_NEAR(losses[0].balance, losses[1].balance, 1e-12);
      EXPECT_NEAR(losses[0].z, losses[1].z, 1e-12);
    }
  }
}

TEST_P(CudaExperts, RowsOfPlaces) {
  constexpr int64_t kRows = 5, kChoices = 2, kWidth = 140, kPlaces = 8;
  const Operand places = numbers({7, 0, -1, 3, 2, 4, 5, -1, 1, 6}, {kRows, kChoices});
  const Operand x = grid({kRows, kWidth}, elements()), weights = grid({kRows, kChoices}, kept());
  const Operand spread = grid({kPlaces + 1, kWidth}, elements()),  // the last has no place
      reference = grid({kPlaces + 1, kWidth}, elements());
  const Operand combined = result({kRows, kWidth}, elements()),
                sums = result({kRows, kWidth}, elements()),
                dots = result({kRows, kChoices}, kept());
  const Operand placed = grid({kPlaces, kWidth}, elements());
  both([&](const Side& side) {
    side.kernels.spreadRows({side(x), side(places), side(weights), side(spread)});
    side.kernels.spreadRows({side(x), side(places), {}, side(reference)});
    side.kernels.combineRows({side(placed), side(places), side(weights), side(combined)});
    side.kernels.combineRows({side(placed), side(places), {}, side(sums)});
    side.kernels.rowDots({side(x), side(placed), side(places), side(dots)});
  });
  for (const Operand& y : {spread, reference, combined, sums, dots})
    expectExact(y, "rows of places");
}

/// What has no type but int32.
class CudaPlaces : public Compared {};
INSTANTIATE_TEST_SUITE_P(Types, CudaPlaces, testing::Values(Types{DType::Float32, DType::Float32}),
                         nameOfTypes);

// Sequences, pieces and experts whose choices begin and end anywhere among the 32 of a warp; with a
// capacity that other pieces have taken a part of, and without. Also of several tiles, and of more
// than a thread adds up at once, in which sequences and pieces end or which they fill; of more
// experts than a block adds up at once, or counts in shared memory.
TEST_P(CudaPlaces, AreThoseOfTheHost) {
  struct Case {
    int64_t sequences, rows, choices, experts, early, capacity;
  };
  for (const Case& c :
       {Case{3, 23, 3, 5, 9, 0}, Case{3, 23, 3, 5, 9, 12}, Case{1, 70, 2, 3, 70, 31},
        Case{40, 1, 1, 2, 0, 1}, Case{2, 64, 1, 1, 32, 40}, Case{1, 2500, 2, 5, 0, 0},
        Case{3, 700, 3, 5, 250, 130}, Case{1, 9300, 1, 2, 0, 4000}, Case{2, 600, 2, 300, 512, 3},
        Case{1, 1024, 1, 3, 512, 100}, Case{3, 40, 1, 1100, 0, 1}}) {
    const int64_t count = c.sequences * c.rows;
    const Operand chosen = ids({count, c.choices}, static_cast<int32_t>(c.experts)),
                  counts = result({c.sequences, 2, c.experts}, kInt),
                  pieces = ids({c.sequences, 4, c.experts}, 6),
                  places = result({count, c.choices}, kInt),
                  choices = result({c.sequences, c.experts}, kInt);
    std::vector<int64_t> loads[2];
    both([&](const Side& side) {
      side.kernels.countChoices(
          {.chosen = side(chosen), .choices = side(counts), .early = c.early});
      auto& own = loads[side.isGpu() ? 0 : 1];
      own.assign(static_cast<size_t>(c.experts), -7);
      side.kernels.placeTokens({.chosen = side(chosen),
                                .places = side(places),
                                .pieces = side(pieces),
                                .choices = side(choices),
                                .own = {1, 3},
                                .early = c.early,
                                .length = std::max<int64_t>(100, c.rows),
                                .capacity = c.capacity,
                                .loads = own});
    });
    for (const Operand& x : {counts, places, choices}) expectExact(x, "places");
    EXPECT_EQ(loads[0], loads[1]);
  }
}

}  // namespace
}  // namespace tutti::parallel
