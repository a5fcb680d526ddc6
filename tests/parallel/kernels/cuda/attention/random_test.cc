// The attention kernels on normally distributed numbers, against the definition in float64.

#include <gtest/gtest.h>

#include <string>

#include "tests/parallel/kernels/cuda/attention/heads.h"
#include "tests/parallel/kernels/cuda/bits.h"

namespace tutti::parallel::cuda {
namespace {

constexpr auto kBrain = ElementFormat::BFloat16, kHalf = ElementFormat::Float16,
               kFloat = ElementFormat::Float32;

constexpr auto kMma = AttentionFamily::Mma, kWgmma = AttentionFamily::Wgmma,
               kPersistent = AttentionFamily::Persistent, kOnePass = AttentionFamily::OnePass,
               kTall = AttentionFamily::Tall;

/// Every width and type, with results of both types; offsets, shared keys, windows, documents.
std::vector<HeadsCase> cases(AttentionFamily family) {
  std::vector<HeadsCase> all;
  for (const int64_t width : {64, 80, 96, 128})
    for (const ElementFormat format : {kBrain, kHalf})
      for (const ElementFormat results : {kFloat, format})
        all.push_back({.sizes = {.queries = 67, .keys = 67, .heads = 2, .headWidth = width},
                       .elements = format,
                       .results = results,
                       .family = family});
  const auto add = [&](const PairSizes& sizes) {
    for (const ElementFormat format : {kBrain, kHalf})
      all.push_back({.sizes = sizes, .elements = format, .family = family});
  };
  add({.batch = 2, .queries = 130, .keys = 130, .heads = 4, .kvHeads = 2, .headWidth = 64});
  add({.queries = 40, .keys = 130, .heads = 3, .kvHeads = 1, .headWidth = 96, .firstQuery = 80});
  add({.queries = 100, .keys = 50, .heads = 2, .headWidth = 80, .firstQuery = 3, .firstKey = 30});
  add({.queries = 130, .keys = 130, .heads = 2, .headWidth = 128, .window = 33});
  add({.batch = 2,
       .queries = 65,
       .keys = 129,
       .heads = 2,
       .headWidth = 64,
       .firstQuery = 64,
       .window = 60,
       .starts = {0, 70, 120, 0, 33, 500}});
  if (family >= kWgmma)  // of more keys than its ring of stages holds
    add({.queries = 70, .keys = 410, .heads = 2, .kvHeads = 1, .headWidth = 80, .firstQuery = 345});
  return all;
}

struct Whole {
  Heads x;
  PairGiven given;
  PairForward forward;

  explicit Whole(const HeadsCase& c) : x(c), given{}, forward{} {
    const PairSizes& s = c.sizes;
    given.dOut = x.random(s.queryCount(), 0, c.elements);
    given.query = x.random(s.queryCount(), 0, c.elements);
    given.key = x.random(s.keyCount(), 0, c.elements);
    given.value = x.random(s.keyCount(), 0, c.elements);
    x.dOut.set(given.dOut), x.query.set(given.query), x.key.set(given.key),
        x.value.set(given.value);
    forward = pairForward(s, given.query, given.key, given.value, c.rounding());
  }
  /// Gives backward what forward should have given, and takes that as it is rounded.
  void prepareBackward() {
    x.out.set(forward.out.values), x.logSumExp.set(forward.logSumExp.values);
    given.out = x.out.get(), given.logSumExp = x.logSumExp.get();
  }
};

void expectForward(const HeadsCase& c) {
  Whole whole(c);
  whole.x.forward();
  EXPECT_EQ(whole.x.error(whole.x.out, whole.forward.out), "");
  EXPECT_EQ(whole.x.error(whole.x.logSumExp, whole.forward.logSumExp), "");
}
void expectBackward(const HeadsCase& c) {
  Whole whole(c);
  whole.prepareBackward();
  const PairBackward right = pairBackward(c.sizes, whole.given, c.rounding());
  whole.x.backward(false);
  EXPECT_EQ(whole.x.error(whole.x.dQuery, right.dQuery), "");
  EXPECT_EQ(whole.x.error(whole.x.dKey, right.dKey), "");
  EXPECT_EQ(whole.x.error(whole.x.dValue, right.dValue), "");
}

TEST(AttentionAtRandom, ForwardIsNearTheDefinition) {
  for (const AttentionFamily family : {kMma, kWgmma, kPersistent, kTall})
    for (const HeadsCase& c : cases(family)) expectForward(c);
}

TEST(AttentionAtRandom, BackwardIsNearTheDefinition) {
  for (const AttentionFamily family : {kMma, kWgmma, kPersistent, kOnePass})
    for (const HeadsCase& c : cases(family)) expectBackward(c);
}

/// Of all results.
Bits bitsOf(const HeadsCase& c) {
  Whole whole(c);
  whole.x.forward();
  Bits bits;
  bits.add(whole.x.out.bytes()), bits.add(whole.x.logSumExp.bytes());
  whole.prepareBackward();
  whole.x.backward(false);
  for (const Spread* result : {&whole.x.dQuery, &whole.x.dKey, &whole.x.dValue})
    bits.add(result->bytes());
  return bits;
}

// Blocks that stay for several tiles, some of which see nothing, compute what others do.
TEST(AttentionBriefly, HasTheSameBitsByBlocksThatStay) {
  for (const int64_t width : {64, 128}) {
    HeadsCase c{.sizes = {.batch = 2,
                          .queries = 270,
                          .keys = 150,
                          .heads = 4,
                          .kvHeads = 2,
                          .headWidth = width,
                          .firstKey = 130},
                .family = kWgmma};
    const Bits bits = bitsOf(c);
    c.family = kPersistent;
    EXPECT_TRUE(bitsOf(c) == bits);
  }
}

// Three warpgroups take turns, in tiles of more queries: each row is computed as by two. Heads of
// other widths have the tiles of two.
TEST(AttentionBriefly, HasTheSameBitsByThreeWarpgroups) {
  for (const int64_t width : {64, 80})
    for (const ElementFormat format : {kBrain, kHalf}) {
      HeadsCase c{.sizes = {.batch = 2,
                            .queries = 400,
                            .keys = 150,
                            .heads = 4,
                            .kvHeads = 2,
                            .headWidth = width,
                            .firstKey = 130},
                  .elements = format,
                  .family = kOnePass};
      const Bits bits = bitsOf(c);
      c.family = kTall;
      EXPECT_TRUE(bitsOf(c) == bits);
    }
}

// Each kernel once, also under sanitizers: every width and type.
TEST(AttentionBriefly, IsNearTheDefinition) {
  for (const AttentionFamily family : {kMma, kWgmma, kOnePass})
    for (const int64_t width : {64, 80, 96, 128})
      for (const ElementFormat format : {kBrain, kHalf}) {
        const HeadsCase c{
            .sizes = {.queries = 35, .keys = 67, .headWidth = width, .firstQuery = 30},
            .elements = format,
            .family = family};
        expectForward(c);
        expectBackward(c);
      }
}

// Scores so large that each tile's largest is far above those of the tiles before.
TEST(AttentionAtRandom, GrowingScoresScaleDownWhatWasBefore) {
  for (const AttentionFamily family : {kMma, kWgmma}) {
    const PairSizes s{.queries = 130, .keys = 400, .headWidth = 64, .firstQuery = 270};
    const HeadsCase c{.sizes = s, .family = family};
    Whole whole(c);
    for (int64_t k = 0; k < s.keys; ++k)
      for (int64_t i = 0; i < s.headWidth; ++i) {
        whole.given.key[static_cast<size_t>(s.keyAt(0, 0, k) + i)] = static_cast<double>(k / 20);
        for (int64_t q = 0; q < s.queries; ++q)
          whole.given.query[static_cast<size_t>(s.queryAt(0, 0, q) + i)] =
              q % 3 == 0 ? -0.25 : 0.25;
      }
    whole.x.query.set(whole.given.query), whole.x.key.set(whole.given.key);
    whole.forward =
        pairForward(s, whole.given.query, whole.given.key, whole.given.value, c.rounding());
    whole.x.forward();
    EXPECT_EQ(whole.x.error(whole.x.out, whole.forward.out), "");
    EXPECT_EQ(whole.x.error(whole.x.logSumExp, whole.forward.logSumExp), "");
  }
}

// Key tiles that add to queries of several, in turn, also where documents and windows part them.
TEST(AttentionBriefly, AddsQueriesOfKeyTilesInTurn) {
  for (const int64_t width : {64, 128}) {
    const PairSizes causal{.batch = 2, .queries = 300, .keys = 300, .headWidth = width};
    PairSizes parted = causal, shared = causal;
    parted.window = 150, parted.starts = {0, 40, 210, 0, 130, 1000};
    shared.batch = 1, shared.heads = 4, shared.kvHeads = 2, shared.firstQuery = 100;
    for (const PairSizes& sizes : {causal, parted, shared})
      expectBackward({.sizes = sizes, .family = kOnePass});
  }
}

// Key tiles that nobody sees, many one after the other, before those that are seen and behind.
TEST(AttentionBriefly, HasKeyTilesWithoutSteps) {
  expectBackward({.sizes = {.queries = 64,
                            .keys = 1500,
                            .heads = 2,
                            .kvHeads = 2,
                            .headWidth = 64,
                            .firstQuery = 700,
                            .window = 10},
                  .family = kOnePass});
}

// Blocks of which each has several key tiles, that wait for others'.
TEST(AttentionAtRandom, BlocksTakeKeyTilesInTheirOrder) {
  expectBackward({.sizes = {.queries = 200,
                            .keys = 900,
                            .heads = 4,
                            .kvHeads = 4,
                            .headWidth = 64,
                            .firstQuery = 700},
                  .family = kOnePass,
                  .blocks = 12});
}

// Keys behind the last one, which are zeros to the kernel, would have weights above all numbers.
TEST(AttentionAtRandom, KeysBehindTheLastAddNothing) {
  const HeadsCase c{.sizes = {.queries = 70, .keys = 70, .headWidth = 64, .firstQuery = 128},
                    .elements = kHalf,
                    .family = kOnePass};
  Whole whole(c);
  whole.given.query.assign(whole.given.query.size(), 16);
  whole.given.key.assign(whole.given.key.size(), -2);
  whole.x.query.set(whole.given.query), whole.x.key.set(whole.given.key);
  whole.forward =
      pairForward(c.sizes, whole.given.query, whole.given.key, whole.given.value, c.rounding());
  whole.prepareBackward();
  const PairBackward right = pairBackward(c.sizes, whole.given, c.rounding());
  whole.x.backward(false);
  EXPECT_EQ(whole.x.error(whole.x.dQuery, right.dQuery), "");
}

const HeadsCase kTiled{
    .sizes = {.batch = 2, .queries = 130, .keys = 130, .heads = 4, .kvHeads = 2, .headWidth = 64}};
// Stages are filled again, and two warpgroups take turns.
const HeadsCase kHopper{
    .sizes =
        {.queries = 130, .keys = 390, .heads = 2, .kvHeads = 1, .headWidth = 64, .firstQuery = 260},
    .family = kWgmma};

const HeadsCase kInTurn{
    .sizes = {.batch = 2, .queries = 390, .keys = 390, .heads = 2, .kvHeads = 1, .headWidth = 64},
    .family = kOnePass};

TEST(AttentionBits, AreTheSameAgain) {
  HeadsCase tall = kInTurn;
  tall.family = kTall;
  for (const HeadsCase& c : {kTiled, kHopper, kInTurn, tall}) {
    const Bits first = bitsOf(c);
    EXPECT_TRUE(bitsOf(c) == first) << c.describe();
    first.say();
  }
}

TEST(AttentionBits, AreThoseOfEveryOrder) {
  expectTheSameBitsInEveryOrder("AttentionBits.AreTheSameAgain", 4);
}

}  // namespace
}  // namespace tutti::parallel::cuda
