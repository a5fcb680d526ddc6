// The attention kernels on integers, of which no sum has an error: exactly the keys that each query
// sees, whatever tiles they lie in. The reference kernels are held to the same.

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "tests/parallel/kernels/cuda/attention/heads.h"

namespace tutti::parallel::cuda {
namespace {

constexpr auto kBrain = ElementFormat::BFloat16, kHalf = ElementFormat::Float16;
constexpr auto kReference = AttentionFamily::Reference, kMma = AttentionFamily::Mma,
               kWgmma = AttentionFamily::Wgmma, kPersistent = AttentionFamily::Persistent,
               kOnePass = AttentionFamily::OnePass, kTall = AttentionFamily::Tall;

/// One row, tiles of all sizes and one more or less; keys before, behind and around the queries;
/// windows; documents, of one sequence fewer than of the other.
std::vector<PairSizes> reaches() {
  std::vector<PairSizes> all;
  const auto add = [&](const PairSizes& sizes) { all.push_back(sizes); };
  for (const int64_t length : {1, 7, 63, 64, 65, 130}) add({.queries = length, .keys = length});
  add({.queries = 65, .keys = 130, .firstQuery = 64});
  add({.queries = 130, .keys = 65, .firstKey = 30});                // some see none
  add({.queries = 9, .keys = 7, .firstQuery = 3, .firstKey = 12});  // nobody does
  add({.queries = 40, .keys = 70, .firstQuery = 200, .firstKey = 2});
  for (const int64_t window : {1, 7, 64, 65}) add({.queries = 130, .keys = 130, .window = window});
  add({.queries = 130, .keys = 65, .firstQuery = 65, .firstKey = 65, .window = 40});
  add({.batch = 2,
       .queries = 130,
       .keys = 130,
       .heads = 2,
       .starts = {0, 1, 64, 100, 0, 65, 1000, 1000}});
  add({.batch = 2,
       .queries = 70,
       .keys = 140,
       .heads = 2,
       .firstQuery = 75,
       .firstKey = 5,
       .window = 50,
       .starts = {0, 64, 90, 0, 144, 145}});
  for (PairSizes& each : all) each.headWidth = 64;
  return all;
}

/// Tiles of Hopper's sizes, and one row more or less; rings of stages that are gone through more
/// than twice; first keys that begin no tile; blocks of which a part sees nothing of a tile.
std::vector<PairSizes> longReaches() {
  std::vector<PairSizes> all;
  const auto add = [&](const PairSizes& sizes) { all.push_back(sizes); };
  for (const int64_t length : {127, 128, 129, 191, 192, 193, 257})
    add({.queries = length, .keys = length});
  for (const int64_t keys : {300, 640, 700}) add({.queries = 66, .keys = keys, .firstQuery = 650});
  add({.queries = 130, .keys = 700, .firstQuery = 570, .window = 420});
  add({.queries = 200, .keys = 300, .firstQuery = 90, .window = 3});
  add({.queries = 129, .keys = 400, .firstKey = 65});
  add({.queries = 260, .keys = 520, .firstQuery = 260, .starts = {0, 150, 405, 460}});
  for (PairSizes& each : all) each.headWidth = 64;
  return all;
}

/// Heads that share keys, and each width.
std::vector<PairSizes> shapes() {
  std::vector<PairSizes> all;
  for (const int64_t width : {64, 80, 96, 128})
    all.push_back({.batch = 2,
                   .queries = 66,
                   .keys = 97,
                   .heads = 6,
                   .kvHeads = 2,
                   .headWidth = width,
                   .firstQuery = 40});
  return all;
}

/// The same numbers for each of several families.
struct Exact {
  PairSizes sizes;
  ElementFormat elements;
  std::vector<AttentionFamily> families;
  ElementFormat results = ElementFormat::Float32;
};
std::vector<Exact> cases() {
  std::vector<Exact> all;
  for (const PairSizes& sizes : reaches())
    all.push_back({sizes, kBrain, {kReference, kMma, kWgmma, kPersistent, kOnePass}});
  for (const PairSizes& sizes : longReaches())
    all.push_back({sizes, kBrain, {kWgmma, kPersistent, kOnePass}});
  for (const PairSizes& sizes : shapes())
    for (const ElementFormat format : {kBrain, kHalf})
      all.push_back({sizes, format, {kMma, kWgmma, kOnePass}});
  // Results of 16 bits are rounded once, also where they are added to.
  for (const ElementFormat format : {kBrain, kHalf})
    all.push_back({shapes()[0], format, {kReference, kMma, kWgmma, kPersistent, kOnePass}, format});
  return all;
}

/// Of each query how many keys it sees.
std::vector<double> seenBy(const PairSizes& s) {
  std::vector<double> counts(static_cast<size_t>(s.batch * s.queries));
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t q = 0; q < s.queries; ++q)
      for (int64_t k = 0; k < s.keys; ++k)
        counts[static_cast<size_t>(b * s.queries + q)] += s.sees(b, q, k);
  return counts;
}

/// What has no error, but for being rounded to float32.
Near exactly(std::vector<double> values) {
  std::vector<double> bounds(values.size());
  return {std::move(values), std::move(bounds)};
}
std::vector<double> zeros(int64_t count) { return std::vector<double>(static_cast<size_t>(count)); }

/// Of weights that are all 1: sums of the values over their number, and the number's logarithm.
struct Means {
  std::vector<double> out, logSumExp;
};
Means meansOf(const PairSizes& s, const std::vector<double>& values) {
  const std::vector<double> counts = seenBy(s);
  Means means{zeros(s.queryCount()), zeros(s.rowCount())};
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t q = 0; q < s.queries; ++q) {
        double* const out = &means.out[static_cast<size_t>(s.queryAt(b, h, q))];
        for (int64_t k = 0; k < s.keys; ++k)
          for (int64_t i = 0; s.sees(b, q, k) && i < s.headWidth; ++i)
            out[i] += values[static_cast<size_t>(s.keyAt(b, h, k) + i)];
        const auto count = static_cast<float>(counts[static_cast<size_t>(b * s.queries + q)]);
        for (int64_t i = 0; i < s.headWidth; ++i)
          out[i] = count == 0 ? 0 : static_cast<float>(out[i]) * (1 / count);
        means.logSumExp[static_cast<size_t>(s.rowAt(b, h, q))] = std::log(count);
      }
  return means;
}

// Of scores that are zero all weights are 1.
TEST(AttentionExactly, MeansOfValues) {
  for (const Exact& c : cases()) {
    const PairSizes& s = c.sizes;
    std::optional<Means> means;
    std::vector<AttentionFamily> families = c.families;
    if (s.headWidth == cuda::kTallWidth) families.push_back(kTall);  // forward alone is its own
    for (const AttentionFamily family : families) {
      Heads x({.sizes = s, .elements = c.elements, .results = c.results, .family = family});
      x.query.set(zeros(s.queryCount()));
      x.key.set(x.random(s.keyCount(), 4, c.elements));
      const std::vector<double> values = x.random(s.keyCount(), 4, c.elements);
      x.value.set(values);
      x.forward();
      if (!means) means = meansOf(s, values);
      EXPECT_EQ(x.error(x.out, exactly(means->out)), "");
      // A logarithm errs by a few units in the last place.
      const std::vector<double> bounds(means->logSumExp.size(), 0x1p-20);
      EXPECT_EQ(x.error(x.logSumExp, {means->logSumExp, bounds}), "");
    }
  }
}

/// What a result may err by where a kernel is not exact.
Near within(std::vector<double> values, double bound) {
  std::vector<double> bounds(values.size(), bound);
  return {std::move(values), std::move(bounds)};
}
/// The same of each value a part.
Near withinPart(std::vector<double> values, double part) {
  std::vector<double> bounds;
  for (const double value : values) bounds.push_back(part * std::fabs(value));
  return {std::move(values), std::move(bounds)};
}

/// One key's weight is exp2(c s - c s rounded). A compiler may fuse the product and the difference,
/// and nvcc does: then its exponent is the rounding of c s, which is below 1024 / 8 log2(e) < 256,
/// at most 2^-17, and the weight 1 + d, |d| < ln(2) 2^-17 + 2^-22 < 2^-17. Rounded to 16 bits it is
/// 1, but rows are divided by 1 + d, and log-sum-exp errs by log(1 + d), and its own rounding below
/// 128, 2^-18. Dots, sums of 64 products up to 8, err by 512 d, less than 2^-8, where they are to
/// cancel exact ones; of that a query's gradient has 4 / 8, a key's, of two heads, 2 * 4 / 8. The
/// exponent of the backward errs by 2^-15 at most, so that probabilities are 1 in 16 bits.
/// The reference kernels are not of that kind.
struct OneKeyErrors {
  double out, logSumExp, gradients;
  explicit OneKeyErrors(const HeadsCase& c)
      : out(c.isReference() ? 0 : 0x1p-16),
        logSumExp(c.isReference() ? 0 : 0x1p-16),
        gradients(c.isReference() ? 0 : 0x1p-7) {}
};

// One key to each query gives its value, whatever the score.
TEST(AttentionExactly, OneKeyIsAllThereIs) {
  for (const ElementFormat format : {kBrain, kHalf})
    for (const AttentionFamily family : {kReference, kMma, kWgmma, kPersistent, kOnePass, kTall}) {
      const PairSizes s{.batch = 2,
                        .queries = 130,
                        .keys = 130,
                        .heads = 4,
                        .kvHeads = 2,
                        .headWidth = 64,
                        .window = 1};
      const HeadsCase c{.sizes = s, .elements = format, .family = family};
      Heads x(c);
      PairGiven given{.dOut = x.random(s.queryCount(), 2, format),
                      .query = x.random(s.queryCount(), 4, format),
                      .key = x.random(s.keyCount(), 4, format),
                      .value = x.random(s.keyCount(), 4, format),
                      .out = {},
                      .logSumExp = {}};
      x.query.set(given.query), x.key.set(given.key), x.value.set(given.value);
      x.forward();
      const OneKeyErrors errors(c);
      const PairForward forward = pairForward(s, given.query, given.key, given.value);
      EXPECT_EQ(x.error(x.out, withinPart(forward.out.values, errors.out)), "");
      EXPECT_EQ(x.error(x.logSumExp, within(forward.logSumExp.values, errors.logSumExp)), "");
      x.dOut.set(given.dOut);
      x.backward(false);
      given.out = forward.out.values, given.logSumExp = forward.logSumExp.values;
      const PairBackward backward = pairBackward(s, given);
      EXPECT_EQ(x.error(x.dQuery, within(zeros(s.queryCount()), errors.gradients)), "");
      EXPECT_EQ(x.error(x.dKey, within(zeros(s.keyCount()), errors.gradients)), "");
      // The exponential of a difference of two roundings is rounded to 1.
      EXPECT_EQ(
          x.error(x.dValue, c.isReference()
                                ? Near{backward.dValue.values,
                                       std::vector<double>(backward.dValue.values.size(), 0x1p-15)}
                                : exactly(backward.dValue.values)),
          "");
    }
}

/// Sums are exact, and are scaled then: `slack` is what those err that are scaled before.
Near scaled(const PairSizes& s, const Near& sums, double slack) {
  const double scale = 1 / std::sqrt(static_cast<double>(s.headWidth));
  Near result{{}, std::vector<double>(sums.values.size(), slack)};
  for (const double value : sums.values)
    result.values.push_back(static_cast<float>(std::round(value / scale)) *
                            static_cast<float>(scale));
  return result;
}

Near plus(const Near& sums, const std::vector<double>& before) {
  Near result = sums;
  for (size_t i = 0; i < before.size(); ++i) result.values[i] += before[i];
  return result;
}

/// What was added to what is there: to integers, and to queries' gradients, which are none, once
/// more themselves.
void expectAdded(Heads& x, const HeadsCase& c, const Near& dQuery, const Near& dKey,
                 const Near& dValue) {
  const std::vector<double> query = x.dQuery.get(),
                            key = x.random(c.sizes.keyCount(), 4, c.results),
                            value = x.random(c.sizes.keyCount(), 4, c.results);
  x.dQuery.set(query), x.dKey.set(key), x.dValue.set(value);
  x.backward(true);
  EXPECT_EQ(x.error(x.dQuery, plus(dQuery, query)), "");
  EXPECT_EQ(x.error(x.dKey, plus(dKey, key)), "");
  EXPECT_EQ(x.error(x.dValue, plus(dValue, value)), "");
}

void expectSumsOfGradients(const Exact& c, bool ofKeys) {
  const PairSizes& s = c.sizes;
  std::optional<PairBackward> right;
  for (const AttentionFamily family : c.families) {
    const HeadsCase each{
        .sizes = s, .elements = c.elements, .results = c.results, .family = family};
    Heads x(each);
    PairGiven given{.dOut = x.random(s.queryCount(), 1, c.elements),
                    .query = zeros(s.queryCount()),
                    .key = zeros(s.keyCount()),
                    .value = x.random(s.keyCount(), 1, c.elements),
                    .out = zeros(s.queryCount()),
                    .logSumExp = zeros(s.rowCount())};
    auto& integers = ofKeys ? given.query : given.key;
    integers = x.random(static_cast<int64_t>(integers.size()), 2, c.elements);
    x.dOut.set(given.dOut), x.query.set(given.query), x.key.set(given.key);
    x.value.set(given.value), x.out.set(given.out), x.logSumExp.set(given.logSumExp);
    if (!right) right = pairBackward(s, given);
    const double slack = each.isReference() ? 0x1p-12 : 0;
    const Near dQuery = scaled(s, right->dQuery, slack), dKey = scaled(s, right->dKey, slack),
               dValue = exactly(right->dValue.values);
    x.backward(false);
    EXPECT_EQ(x.error(x.dQuery, dQuery), "");
    EXPECT_EQ(x.error(x.dKey, dKey), "");
    EXPECT_EQ(x.error(x.dValue, dValue), "");
    // One kernel of the reference ones adds to every type, and slowly.
    const bool isSlow = each.isReference() && c.results == ElementFormat::Float32;
    if (!ofKeys && !isSlow) expectAdded(x, each, dQuery, dKey, dValue);
  }
}

// With scores and logarithms of sums that are zero, and no dots, all gradients are sums of
// integers: of queries where these are zero, of keys where those are.
TEST(AttentionExactly, SumsOfGradients) {
  for (const Exact& c : cases())
    for (const bool ofKeys : {false, true}) expectSumsOfGradients(c, ofKeys);
}

}  // namespace
}  // namespace tutti::parallel::cuda
