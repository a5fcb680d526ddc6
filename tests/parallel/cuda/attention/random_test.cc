// The attention kernels on normally distributed numbers, against the definition in float64.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "src/device/cuda.h"
#include "tests/parallel/cuda/attention/heads.h"

namespace tutti::parallel::cuda {
namespace {

constexpr auto kBrain = Format::BFloat16, kHalf = Format::Float16, kFloat = Format::Float32;

constexpr auto kMma = AttentionFamily::Mma, kWgmma = AttentionFamily::Wgmma,
               kPersistent = AttentionFamily::Persistent;

/// Every width and type, with results of both types; offsets, shared keys, windows, documents.
std::vector<HeadsCase> cases(AttentionFamily family) {
  std::vector<HeadsCase> all;
  for (const int64_t width : {64, 80, 96, 128})
    for (const Format format : {kBrain, kHalf})
      for (const Format results : {kFloat, format})
        all.push_back({.sizes = {.queries = 67, .keys = 67, .heads = 2, .headWidth = width},
                       .elements = format,
                       .results = results,
                       .family = family});
  const auto add = [&](const PairSizes& sizes) {
    for (const Format format : {kBrain, kHalf})
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
  for (const AttentionFamily family : {kMma, kWgmma, kPersistent})
    for (const HeadsCase& c : cases(family)) expectForward(c);
}

TEST(AttentionAtRandom, BackwardIsNearTheDefinition) {
  for (const AttentionFamily family : {kMma, kWgmma, kPersistent})
    for (const HeadsCase& c : cases(family)) expectBackward(c);
}

/// A hash of all bytes of all results.
uint64_t bitsOf(const HeadsCase& c) {
  Whole whole(c);
  whole.x.forward();
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](const Spread& result) {
    for (const char byte : result.bytes())
      hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  };
  add(whole.x.out), add(whole.x.logSumExp);
  whole.prepareBackward();
  whole.x.backward(false);
  add(whole.x.dQuery), add(whole.x.dKey), add(whole.x.dValue);
  return hash;
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
    const uint64_t bits = bitsOf(c);
    c.family = kPersistent;
    EXPECT_EQ(bitsOf(c), bits);
  }
}

// Each kernel once, also under sanitizers: every width and type.
TEST(AttentionBriefly, IsNearTheDefinition) {
  for (const AttentionFamily family : {kMma, kWgmma})
    for (const int64_t width : {64, 80, 96, 128})
      for (const Format format : {kBrain, kHalf}) {
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

const HeadsCase kTiled{
    .sizes = {.batch = 2, .queries = 130, .keys = 130, .heads = 4, .kvHeads = 2, .headWidth = 64}};
// Stages are filled again, and two warpgroups take turns.
const HeadsCase kHopper{
    .sizes =
        {.queries = 130, .keys = 390, .heads = 2, .kvHeads = 1, .headWidth = 64, .firstQuery = 260},
    .family = kWgmma};

TEST(AttentionBits, AreTheSameAgain) {
  for (const HeadsCase& c : {kTiled, kHopper}) {
    const uint64_t first = bitsOf(c);
    EXPECT_EQ(bitsOf(c), first) << c.describe();
    printf("the bits are %016llx\n", static_cast<unsigned long long>(first));
  }
}

// The emulation's threads run in another order, and copies land at other times. A GPU has orders of
// its own, whatever the seed: one more program will do, which takes seconds to begin there.
TEST(AttentionBits, AreThoseOfEveryOrder) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::string first;
  const bool isEmulated = device::cudaSupport().emulated;
  for (int seed = 0; seed < (isEmulated ? 3 : 2); ++seed) {
    std::printf("a program of seed %d\n", seed);  // who waits for lines sees that it goes on
    std::fflush(stdout);
    const std::string command = "TUTTI_EMULATION_SEED=" + std::to_string(seed) + " " + self +
                                " --gtest_filter=AttentionBits.AreTheSameAgain | grep bits.are";
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
    ASSERT_NE(pipe, nullptr);
    std::string lines;
    for (std::array<char, 256> line{}; fgets(line.data(), line.size(), pipe.get()) != nullptr;)
      lines += line.data();
    EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2) << "seed " << seed;
    if (seed == 0) first = lines;
    EXPECT_EQ(lines, first) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tutti::parallel::cuda
