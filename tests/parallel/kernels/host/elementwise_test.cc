// The host's elementwise kernels: every instruction set of this processor gives the same bits,
// tails have the bits of bodies, and exp, GELU and softmax are as accurate as their comments say.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "parallel/kernels/host/elementwise.h"

namespace tutti::parallel::host {
namespace {

constexpr unsigned kSeed = 11;

template <class T>
std::vector<T> values(int64_t count, double size, unsigned salt = 0) {
  std::mt19937 random(kSeed + salt);
  std::normal_distribution<double> normal(0, size);
  std::vector<T> result(static_cast<size_t>(count));
  for (T& v : result) v = static_cast<T>(normal(random));
  return result;
}

template <class T>
const ElementwiseKernels<T>& of(const ElementwiseSet& set);
template <>
const ElementwiseKernels<float>& of<float>(const ElementwiseSet& set) {
  return set.floats;
}
template <>
const ElementwiseKernels<double>& of<double>(const ElementwiseSet& set) {
  return set.doubles;
}

/// Everything that the elementwise kernels compute from one input, one value after the other.
template <class T>
std::vector<T> everything(const ElementwiseKernels<T>& elementwise, int64_t rows, int64_t width) {
  const int64_t n = rows * width;
  const auto x = values<T>(n, 2, 1), dy = values<T>(n, 1, 2);
  const auto weight = values<T>(width, 1, 3), bias = values<T>(width, 1, 4);
  std::vector<T> all, y(x.size()), mean(static_cast<size_t>(rows)), rstd(mean), dw(weight),
      db(bias);
  const auto take = [&](const std::vector<T>& v) { all.insert(all.end(), v.begin(), v.end()); };
  elementwise.layerNorm(x.data(), weight.data(), bias.data(), y.data(), mean.data(), rstd.data(),
                        rows, width, T(1e-5));
  take(y), take(mean), take(rstd);
  elementwise.layerNormBackward(dy.data(), x.data(), weight.data(), mean.data(), rstd.data(),
                                x.data(), y.data(), rows, width);
  take(y);
  elementwise.layerNormWeights(dy.data(), x.data(), mean.data(), rstd.data(), dw.data(), db.data(),
                               rows, width, true, false);
  take(dw), take(db);
  elementwise.rmsNorm(x.data(), weight.data(), y.data(), rstd.data(), rows, width, T(1e-5));
  take(y), take(rstd);
  elementwise.rmsNormBackward(dy.data(), x.data(), weight.data(), rstd.data(), x.data(), y.data(),
                              rows, width);
  take(y);
  elementwise.rmsNormWeights(dy.data(), x.data(), rstd.data(), dw.data(), rows, width, true);
  take(dw);
  auto first = x, second = dy;
  elementwise.rotate(first.data(), second.data(), weight.data(), bias.data(), width, T(-1));
  take(first), take(second);
  elementwise.swiGlu(x.data(), dy.data(), y.data(), n);
  take(y);
  elementwise.swiGluBackward(y.data(), x.data(), dy.data(), first.data(), second.data(), n);
  take(first), take(second);
  elementwise.gelu(x.data(), y.data(), n);
  take(y);
  elementwise.geluBackward(dy.data(), x.data(), y.data(), n);
  take(y);
  y = x;
  auto logSumExp = values<T>(width, 1, 5);
  const auto dots = values<T>(width, 1, 6);
  auto probabilities = x, slope = dy;
  elementwise.softmaxBackward(probabilities.data(), slope.data(), rows, width, rows - 2, T(0.7),
                              logSumExp.data(), dots.data());
  elementwise.softmax(y.data(), rows, width, rows - 2, T(0.7), logSumExp.data());
  take(logSumExp);
  all.push_back(elementwise.dot(x.data(), dy.data(), width));
  elementwise.blend(first.data(), dy.data(), T(0.3), T(0.7), n);
  take(first);
  take(y), take(probabilities), take(slope);
  y = x;
  T largest = 0, sum = 0;
  elementwise.logitStatistics(x.data(), width, &largest, &sum);
  all.push_back(largest), all.push_back(sum);
  elementwise.scaledExp(y.data(), width, largest, T(0.1) / sum);
  take(y);
  auto w = x, m = dy, v = std::vector<T>(x.size(), T(0.5));
  elementwise.adamW(w.data(), dy.data(), m.data(), v.data(), n,
                    {T(0.9), T(0.01), T(0.9), T(0.95), T(1e-8), T(0.1), T(1.3), T(1.2)});
  take(w), take(m), take(v);
  elementwise.sgd(w.data(), dy.data(), n, {T(0.5), T(0.1), T(0.01), T(0)});
  elementwise.momentumSgd(w.data(), dy.data(), m.data(), n, {T(0.5), T(0.1), T(0.01), T(0.9)});
  take(m);
  elementwise.addBias(w.data(), width, bias.data(), rows, width);
  elementwise.columnSums(w.data(), width, rows, width, db.data(), true);
  take(w), take(db);
  return all;
}

template <class T>
void expectSameBits() {
  const ElementwiseSets sets = availableElementwise();
  for (int64_t width : {1, 5, 15, 16, 17, 63, 64, 65, 128, 200}) {
    const auto expected = everything(of<T>(*sets.sets[sets.count - 1]), 3, width);
    for (int s = 0; s + 1 < sets.count; ++s) {
      const auto actual = everything(of<T>(*sets.sets[s]), 3, width);
      ASSERT_EQ(actual.size(), expected.size());
      EXPECT_EQ(std::memcmp(actual.data(), expected.data(), actual.size() * sizeof(T)), 0)
          << sets.sets[s]->name << ", width " << width << ", seed " << kSeed;
    }
  }
}

TEST(ElementwiseKernels, AllInstructionSetsGiveTheSameBits) {
  const ElementwiseSets sets = availableElementwise();
  for (int s = 0; s < sets.count; ++s) std::printf("elementwise: %s\n", sets.sets[s]->name);
  expectSameBits<float>();
  expectSameBits<double>();
}

// All numbers of 16 bits, and of 32 bits each 4099th, with the NaNs and those that are too large or
// denormal among them. narrow_types_test says that they are the right ones.
TEST(ElementwiseKernels, AllInstructionSetsConvertAlike) {
  std::vector<uint16_t> narrow(0x10000);
  for (size_t i = 0; i < narrow.size(); ++i) narrow[i] = static_cast<uint16_t>(i);
  std::vector<float> wide;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4099)
    wide.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  const auto size = static_cast<int64_t>(narrow.size()),
             wideSize = static_cast<int64_t>(wide.size());
  const ElementwiseSets sets = availableElementwise();
  const ElementwiseSet& baseline = *sets.sets[sets.count - 1];
  for (int s = 0; s + 1 < sets.count; ++s) {
    const ElementwiseSet& set = *sets.sets[s];
    for (const auto widen : {&ElementwiseSet::widenBrain, &ElementwiseSet::widenHalf}) {
      std::vector<float> expected(narrow.size()), actual(narrow.size());
      (baseline.*widen)(narrow.data(), expected.data(), size);
      (set.*widen)(narrow.data(), actual.data(), size);
      EXPECT_EQ(std::memcmp(expected.data(), actual.data(), narrow.size() * 4), 0) << set.name;
    }
    for (const auto back : {&ElementwiseSet::narrowBrain, &ElementwiseSet::narrowHalf}) {
      std::vector<uint16_t> expected(wide.size()), actual(wide.size());
      (baseline.*back)(wide.data(), expected.data(), wideSize);
      (set.*back)(wide.data(), actual.data(), wideSize);
      EXPECT_EQ(expected, actual) << set.name;
    }
  }
}

TEST(ElementwiseKernels, TailsHaveTheBitsOfBodies) {
  const ElementwiseSets sets = availableElementwise();
  for (int s = 0; s < sets.count; ++s) {
    const ElementwiseKernels<float>& elementwise = sets.sets[s]->floats;
    const auto x = values<float>(64, 3), dy = values<float>(64, 1, 1);
    std::vector<float> whole(64), part(64);
    elementwise.geluBackward(dy.data(), x.data(), whole.data(), 64);
    for (int64_t length = 1; length <= 64; ++length) {
      elementwise.geluBackward(dy.data(), x.data(), part.data(), length);
      EXPECT_EQ(std::memcmp(part.data(), whole.data(), static_cast<size_t>(length) * 4), 0)
          << length;
    }
  }
}

/// In units of the last place of `expected` rounded to float.
double ulps(float actual, double expected) {
  int exponent = 0;
  std::frexp(expected, &exponent);
  return std::fabs(static_cast<double>(actual) - expected) / std::ldexp(1.0, exponent - 24);
}

// softmax over {0, -x} is {1, e} / (1 + e) with e = exp(-x): two further roundings, and the error
// of e enters the denominator at most whole. So 2.5 ulp of exp appear as at most 2.5 + 2.5 + 1.5.
TEST(ElementwiseKernels, ExpWithinItsBound) {
  const ElementwiseKernels<float>& elementwise = availableElementwise().sets[0]->floats;
  double worst = 0;
  for (float x = 0; x < 80; x += 0.00137f) {
    float scores[2] = {0, -x};
    const float kept = -x;
    float logSumExp = 0;
    elementwise.softmax(scores, 2, 1, 1, 1, &logSumExp);
    const double e = std::exp(static_cast<double>(kept));
    worst = std::max(worst, ulps(scores[1], e / (1 + e)));
  }
  std::printf("softmax of two: worst %.2f ulp\n", worst);
  EXPECT_LT(worst, 6.5);
}

// Of scores of 0 the sum is their number, and of {0, -x} it is 1 + e, which exp's 2.5 ulp change by
// at most 5 times 2^-24 and an addition by half of 2^-23. The logarithm's own error is 2^-23 of it
// and 2^-25.
TEST(ElementwiseKernels, LogWithinItsBound) {
  const ElementwiseKernels<float>& elementwise = availableElementwise().sets[0]->floats;
  const auto excess = [](float actual, double expected, double given) {
    return std::fabs(actual - expected) / (given + 0x1p-23 * std::fabs(expected) + 0x1p-25);
  };
  double worst = 0;
  for (int64_t keys = 1; keys < 3000; ++keys) {
    std::vector<float> scores(static_cast<size_t>(keys), 0);
    float logSumExp = 0;
    elementwise.softmax(scores.data(), keys, 1, keys, 1, &logSumExp);
    worst = std::max(worst, excess(logSumExp, std::log(static_cast<double>(keys)), 0));
  }
  for (float x = 0; x < 30; x += 0.00137f) {
    float scores[2] = {0, -x}, logSumExp = 0;
    elementwise.softmax(scores, 2, 1, 1, 1, &logSumExp);
    const double e = std::exp(static_cast<double>(-x));
    worst = std::max(worst, excess(logSumExp, std::log1p(e), 5 * 0x1p-24 * e + 0x1p-24));
  }
  std::printf("log of the sum: worst %.2f of its bound\n", worst);
  EXPECT_LE(worst, 1);
}

/// Queries after the first three keys: the first query sees three of them, the second four, and so
/// on. What is not seen is 0, whatever is there, and backward says so too.
void expectNoKeyOfTheFuture(int64_t keys) {
  constexpr int64_t kRows = 19, kBefore = 2;
  const ElementwiseSets sets = availableElementwise();
  for (int s = 0; s < sets.count; ++s) {
    const ElementwiseKernels<double>& elementwise = sets.sets[s]->doubles;
    const auto given = values<double>(keys * kRows, 3);
    auto p = given, again = given, slope = values<double>(keys * kRows, 1, 1);
    const auto dP = slope, dots = values<double>(kRows, 1, 2);
    for (auto* scores : {&p, &again}) (*scores)[3 * kRows] = (*scores)[4 * kRows + 1] = NAN;
    std::vector<double> logSumExp(kRows);
    elementwise.softmax(p.data(), keys, kRows, kBefore, 0.3, logSumExp.data());
    elementwise.softmaxBackward(again.data(), slope.data(), keys, kRows, kBefore, 0.3,
                                logSumExp.data(), dots.data());
    for (int64_t r = 0; r < kRows; ++r) {
      double sum = 0;
      for (int64_t k = 0; k <= std::min(kBefore + r, keys - 1); ++k)
        sum += std::exp(0.3 * given[static_cast<size_t>(k * kRows + r)]);
      EXPECT_NEAR(logSumExp[static_cast<size_t>(r)], std::log(sum), 1e-14);
      for (int64_t k = 0; k < keys; ++k) {
        const auto at = static_cast<size_t>(k * kRows + r);
        const bool seen = k <= kBefore + r;
        const double expected = seen ? std::exp(0.3 * given[at]) / sum : 0;
        EXPECT_NEAR(p[at], expected, 1e-14) << sets.sets[s]->name << ": " << k << ", " << r;
        EXPECT_NEAR(again[at], expected, 1e-14);
        const double back = seen ? expected * (dP[at] - dots[static_cast<size_t>(r)]) * 0.3 : 0;
        EXPECT_NEAR(slope[at], back, 1e-13);
      }
    }
  }
}

// Fewer keys than a vector has queries, and so many that no query of the first vectors sees the
// last.
TEST(ElementwiseKernels, SoftmaxSeesNoKeyOfTheFuture) {
  expectNoKeyOfTheFuture(5);
  expectNoKeyOfTheFuture(21);
  expectNoKeyOfTheFuture(40);
}

// Queries of which some come before all keys, as blocks of a sequence may have them: nothing is
// their sum, and its logarithm minus infinity. A NaN among what the others see is not hidden.
TEST(ElementwiseKernels, SoftmaxOfNoKeyIsNothing) {
  constexpr int64_t kKeys = 3, kRows = 21, kBefore = -5;
  const ElementwiseSets sets = availableElementwise();
  for (int s = 0; s < sets.count; ++s) {
    const ElementwiseKernels<float>& elementwise = sets.sets[s]->floats;
    auto p = values<float>(kKeys * kRows, 3);
    p[kRows + 20] = NAN;
    std::vector<float> logSumExp(kRows);
    elementwise.softmax(p.data(), kKeys, kRows, kBefore, 1, logSumExp.data());
    for (int64_t r = 0; r < kRows; ++r) {
      float sum = 0;
      for (int64_t k = 0; k < kKeys; ++k) sum += p[static_cast<size_t>(k * kRows + r)];
      const auto at = static_cast<size_t>(r);
      if (r == 20) {
        EXPECT_TRUE(std::isnan(sum));
      } else {
        EXPECT_NEAR(sum, r + kBefore < 0 ? 0 : 1, 1e-6) << sets.sets[s]->name << ": " << r;
        EXPECT_EQ(std::isinf(logSumExp[at]), r + kBefore < 0) << r;
      }
    }
    elementwise.softmax(p.data(), 0, kRows, kBefore, 1, logSumExp.data());
    for (const float sum : logSumExp) EXPECT_EQ(sum, -INFINITY);
  }
}

TEST(ElementwiseKernels, BlendWeighsBoth) {
  const ElementwiseSets sets = availableElementwise();
  for (int s = 0; s < sets.count; ++s) {
    const auto from = values<double>(19, 1, 3);
    auto to = values<double>(19, 1, 4);
    const auto before = to;
    sets.sets[s]->doubles.blend(to.data(), from.data(), 0.25, 3, 19);
    for (size_t i = 0; i < to.size(); ++i) EXPECT_EQ(to[i], before[i] * 0.25 + from[i] * 3) << i;
  }
}

// x / (1 + t), t = exp(-2u). 2u has five roundings, each at most 2^-24 relative, so t is off by
// 5 |2u| 2^-24 beyond exp's own 2.5 ulp (at most 5 times 2^-24), and t / (1 + t) <= 1 of that
// reaches y. For |x| <= 5, |2u| <= 17: (85 + 5 + 2) 2^-24, which is 92 ulp at most.
TEST(ElementwiseKernels, GeluWithinItsBound) {
  const ElementwiseKernels<float>& elementwise = availableElementwise().sets[0]->floats;
  double worst = 0, worstSlope = 0;
  for (float x = -5; x <= 5; x += 0.00071f) {
    const double d = x, u = std::sqrt(2 / M_PI) * (d + 0.044715 * d * d * d);
    const double t = std::exp(-2 * u), s = 1 / (1 + t);
    const double slope = s + d * t * s * s * 2 * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * d * d);
    float y = 0, dx = 0;
    const float one = 1;
    elementwise.gelu(&x, &y, 1);
    elementwise.geluBackward(&one, &x, &dx, 1);
    if (x != 0) worst = std::max(worst, ulps(y, d * s));
    worstSlope = std::max(worstSlope, std::fabs(dx - slope));
  }
  std::printf("gelu: worst %.2f ulp; its derivative: worst %.2g\n", worst, worstSlope);
  EXPECT_LT(worst, 92);
  EXPECT_LT(worstSlope, 2 * 92 * 0x1p-24 * 1.2);  // two such factors, of a value below 1.2
}

// g / (1 + t) * u with t = exp(-g): t is off by exp's 2.5 ulp (at most 5 times 2^-24), of which
// t / (1 + t) <= 1 reaches the result; an addition, a division and a multiplication add one each.
TEST(ElementwiseKernels, SwiGluWithinItsBound) {
  const ElementwiseKernels<float>& elementwise = availableElementwise().sets[0]->floats;
  double worst = 0, worstSlope = 0;
  for (float g = -20; g <= 20; g += 0.00171f) {
    const double d = g, s = 1 / (1 + std::exp(-d));
    const float up = 3, one = 1;
    float y = 0, dGate = 0, dUp = 0;
    elementwise.swiGlu(&g, &up, &y, 1);
    elementwise.swiGluBackward(&one, &g, &up, &dGate, &dUp, 1);
    if (g != 0) worst = std::max(worst, ulps(y, d * s * 3));
    worstSlope = std::max(worstSlope, std::fabs(dGate - 3 * s * (1 + d * (1 - s))));
    EXPECT_LE(std::fabs(dUp - d * s), 8 * 0x1p-24 * std::fabs(d * s)) << g;
  }
  std::printf("swiglu: worst %.2f ulp; its derivative: worst %.2g\n", worst, worstSlope);
  EXPECT_LT(worst, 8);
  EXPECT_LT(worstSlope, 3 * 1.1 * 20 * 0x1p-24);  // of a value below 3.3
}

TEST(ElementwiseKernels, RotatingBackUndoesIt) {
  const ElementwiseKernels<double>& elementwise = availableElementwise().sets[0]->doubles;
  std::vector<double> cosine, sine;
  for (int i = 0; i < 21; ++i) {
    cosine.push_back(std::cos(0.3 * i));
    sine.push_back(std::sin(0.3 * i));
  }
  const auto a = values<double>(21, 1, 7), b = values<double>(21, 1, 8);
  auto x = a, y = b;
  elementwise.rotate(x.data(), y.data(), cosine.data(), sine.data(), 21, 1);
  for (size_t i = 0; i < 21; ++i) {
    EXPECT_NEAR(x[i], a[i] * cosine[i] - b[i] * sine[i], 1e-15);
    EXPECT_NEAR(y[i], b[i] * cosine[i] + a[i] * sine[i], 1e-15);
  }
  elementwise.rotate(x.data(), y.data(), cosine.data(), sine.data(), 21, -1);
  for (size_t i = 0; i < 21; ++i) {
    EXPECT_NEAR(x[i], a[i], 1e-14);
    EXPECT_NEAR(y[i], b[i], 1e-14);
  }
}

TEST(ElementwiseKernels, NaNIsNotHidden) {
  const ElementwiseKernels<float>& elementwise = availableElementwise().sets[0]->floats;
  const float x[3] = {1, std::nanf(""), 2};
  float y[3];
  elementwise.gelu(x, y, 3);
  EXPECT_TRUE(std::isnan(y[1]));
  float largest = 0, sum = 0;
  elementwise.logitStatistics(x, 3, &largest, &sum);
  EXPECT_TRUE(std::isnan(sum));
}

TEST(ElementwiseKernels, ExtremeScoresAreFinite) {
  const ElementwiseKernels<float>& elementwise = availableElementwise().sets[0]->floats;
  float scores[4] = {-1e30f, 1e30f, 0, -5};
  float logSumExp = 0;
  elementwise.softmax(scores, 4, 1, 3, 1, &logSumExp);
  EXPECT_EQ(logSumExp, 1e30f);
  EXPECT_EQ(scores[1], 1.0f);
  EXPECT_LT(scores[0], 1e-37f);
  float huge[2] = {-40, 40}, result[2];
  elementwise.gelu(huge, result, 2);
  EXPECT_LE(std::fabs(result[0]), 1e-36f);
  EXPECT_EQ(result[1], 40.0f);
}

// Where the exponential would be infinite, the derivatives of GELU and SwiGLU are as good as 0.
template <class T>
void expectFlatFarBelow(const ElementwiseKernels<T>& elementwise) {
  for (const T x : {T(-18), T(-19.5), T(-25), T(-100), T(-800), T(-1e5)}) {
    const T one = 1;
    T dx = 0, dGate = 0, dUp = 0;
    elementwise.geluBackward(&one, &x, &dx, 1);
    elementwise.swiGluBackward(&one, &x, &one, &dGate, &dUp, 1);
    EXPECT_LE(std::fabs(dx), T(1e-18)) << x;
    EXPECT_LE(std::fabs(dGate), T(1e-6)) << x;  // -17 exp(-18) at the first
    EXPECT_LE(std::fabs(dUp), T(1e-6)) << x;
  }
}
TEST(ElementwiseKernels, DerivativesFarBelowZero) {
  const ElementwiseSets sets = availableElementwise();
  for (int s = 0; s < sets.count; ++s) {
    expectFlatFarBelow(sets.sets[s]->floats);
    expectFlatFarBelow(sets.sets[s]->doubles);
  }
}

}  // namespace
}  // namespace tutti::parallel::host
