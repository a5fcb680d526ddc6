// ldmatrix, mma.sync, cp.async and conversions, against the layouts of the PTX ISA's figures;
// powers of two.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/emulation/conformance/golden.h"
#include "tests/emulation/conformance/matrix_device.cuh"
#include "tests/emulation/conformance/matrix_model.h"

namespace tutti::emulation::conformance {
namespace {

constexpr int kLanes = 32;

/// PTX, ldmatrix: "each thread loads one fragment of a row; thread t has row t / 4, elements
/// 2 (t % 4) and 2 (t % 4) + 1"; with .trans of the transposed matrix.
template <int kCount, bool kTrans>
void expectLoaded() {
  const auto halves = randomWords<uint16_t>(kLanes * 8, kCount);
  const DeviceArray<uint16_t> in(halves);
  const auto out =
      outputOf<uint32_t>(kCount * kLanes, loadMatrices<kCount, kTrans>, {.block = dim3(kLanes)},
                         reinterpret_cast<const uint4*>(in.get()));
  const auto element = [&](int matrix, int row, int column) {
    return halves[size_t(64 * matrix + (kTrans ? 8 * column + row : 8 * row + column))];
  };
  for (int lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < kCount; ++i)
      ASSERT_EQ(out[size_t(kCount * lane + i)], pairOf(element(i, lane / 4, 2 * (lane % 4)),
                                                       element(i, lane / 4, 2 * (lane % 4) + 1)))
          << kCount << " " << kTrans << " lane " << lane;
  expectGolden("ldmatrix_x" + std::to_string(kCount) + (kTrans ? "_trans" : ""), out);
}

TEST(Matrix, IsLoadedByAWarp) {
  expectLoaded<1, false>();
  expectLoaded<2, false>();
  expectLoaded<4, false>();
  expectLoaded<1, true>();
  expectLoaded<2, true>();
  expectLoaded<4, true>();
}

/// The figures for m16n8k16 with 16-bit types: groupID = lane / 4, threadID = lane % 4;
///   a: row = groupID for a0, a1, a4, a5, else groupID + 8; column = 2 threadID + i % 2, + 8 for i
///   >= 4 b: row = 2 threadID + i % 2, + 8 for i >= 2; column = groupID c: row = groupID for c0,
///   c1, else groupID + 8; column = 2 threadID + i % 2
int rowOfA(int lane, int i) { return lane / 4 + (i == 2 || i == 3 || i == 6 || i == 7 ? 8 : 0); }
int columnOfA(int lane, int i) { return lane % 4 * 2 + i % 2 + (i >= 4 ? 8 : 0); }
int rowOfB(int lane, int i) { return lane % 4 * 2 + i % 2 + (i >= 2 ? 8 : 0); }
int rowOfC(int lane, int i) { return lane / 4 + (i >= 2 ? 8 : 0); }
int columnOfC(int lane, int i) { return lane % 4 * 2 + i % 2; }

template <class T>
struct Operands16 {
  Grid<T> a{16, 16, randomIntegers<T>(256, 4, 1)}, b{16, 8, randomIntegers<T>(128, 4, 2)};
  std::vector<uint32_t> aWords, bWords;

  Operands16() {
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto ofA = [&](int i) { return bitsOf(a.at(rowOfA(lane, i), columnOfA(lane, i))); };
      const auto ofB = [&](int i) { return bitsOf(b.at(rowOfB(lane, i), lane / 4)); };
      for (int i = 0; i < 8; i += 2) aWords.push_back(pairOf(ofA(i), ofA(i + 1)));
      for (int i = 0; i < 4; i += 2) bWords.push_back(pairOf(ofB(i), ofB(i + 1)));
    }
  }
};

Grid<float> someSums() { return {16, 8, randomIntegers<float>(128, 100, 3)}; }

std::vector<float> byLanes(const Grid<float>& c) {
  std::vector<float> values;
  for (int lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < 4; ++i) values.push_back(c.at(rowOfC(lane, i), columnOfC(lane, i)));
  return values;
}

void expectSums(const std::vector<float>& out, const Grid<double>& sums, const std::string& name) {
  for (int lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < 4; ++i)
      ASSERT_EQ(out[size_t(4 * lane + i)], float(sums.at(rowOfC(lane, i), columnOfC(lane, i))))
          << name << " lane " << lane << " register " << i;
  expectGolden(name, out);
}

template <Mma kMma, class T>
void expectProduct16(const std::string& name) {
  const Operands16<T> operands;
  const Grid<float> d = someSums();
  const auto out = outputOf<float>(4 * kLanes, multiplyFloats<kMma>, {.block = dim3(kLanes)},
                                   DeviceArray<uint32_t>(operands.aWords).get(),
                                   DeviceArray<uint32_t>(operands.bWords).get(),
                                   DeviceArray<float>(byLanes(d)).get());
  expectSums(out, product(operands.a, operands.b, d), name);
}

TEST(Matrix, IsMultipliedIn16Bits) {
  expectProduct16<Mma::Bf16, __nv_bfloat16>("mma_bf16");
  expectProduct16<Mma::F16, __half>("mma_f16");
}

TEST(Matrix, IsMultipliedIntoHalves) {
  const Operands16<__half> operands;
  const Grid<float> d = someSums();
  std::vector<uint32_t> words;
  const auto lanes = byLanes(d);
  for (size_t i = 0; i < lanes.size(); i += 2)
    words.push_back(pairOf(bitsOf(__float2half(lanes[i])), bitsOf(__float2half(lanes[i + 1]))));
  const auto out = outputOf<uint32_t>(2 * kLanes, multiplyHalves, {.block = dim3(kLanes)},
                                      DeviceArray<uint32_t>(operands.aWords).get(),
                                      DeviceArray<uint32_t>(operands.bWords).get(),
                                      DeviceArray<uint32_t>(words).get());
  const Grid<double> sums = product(operands.a, operands.b, d);
  for (int lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < 2; ++i) {
      const auto half = [&](int j) {
        return bitsOf(__float2half(float(sums.at(rowOfC(lane, j), columnOfC(lane, j)))));
      };
      ASSERT_EQ(out[size_t(2 * lane + i)], pairOf(half(2 * i), half(2 * i + 1))) << lane;
    }
  expectGolden("mma_f16_f16", out);
}

/// m16n8k8 with .tf32: a0 (groupID, threadID), a1 row + 8, a2 column + 4, a3 both; b0 (threadID,
/// groupID), b1 row + 4.
TEST(Matrix, IsMultipliedInTf32) {
  const Grid<float> a(16, 8, randomIntegers<float>(128, 64, 4)),
      b(8, 8, randomIntegers<float>(64, 64, 5));
  const Grid<float> d = someSums();
  std::vector<uint32_t> aWords, bWords;
  const auto wordOf = [](float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return bits;
  };
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i)
      aWords.push_back(
          wordOf(a.at(lane / 4 + (i == 1 || i == 3 ? 8 : 0), lane % 4 + (i >= 2 ? 4 : 0))));
    for (int i = 0; i < 2; ++i) bWords.push_back(wordOf(b.at(lane % 4 + 4 * i, lane / 4)));
  }
  const auto out =
      outputOf<float>(4 * kLanes, multiplyFloats<Mma::Tf32>, {.block = dim3(kLanes)},
                      DeviceArray<uint32_t>(aWords).get(), DeviceArray<uint32_t>(bWords).get(),
                      DeviceArray<float>(byLanes(d)).get());
  expectSums(out, product(a, b, d), "mma_tf32");
}

template <int kBytes>
void expectCopied() {
  constexpr int kThreads = 48;
  const auto in = randomWords<char>(3 * kBytes * kThreads, kBytes);
  const auto out = outputOf<char>(in.size(), copies<kBytes>, {.block = dim3(kThreads)},
                                  DeviceArray<char>(in).get());
  for (int i = 0; i < 3 * kThreads; ++i)
    for (int j = 0; j < kBytes; ++j) {
      const size_t at = size_t(kBytes * i + j);
      const int sourceBytes = (i % kThreads + i / kThreads) % (kBytes + 1);
      ASSERT_EQ(out[at], j < sourceBytes ? in[at] : 0) << kBytes << " " << i << " " << j;
    }
  expectGolden("cp_async_" + std::to_string(kBytes), out);
}

TEST(Matrix, IsCopiedAsynchronously) {
  expectCopied<4>();
  expectCopied<8>();
  expectCopied<16>();
}

TEST(Matrix, IsConverted) {
  std::vector<float> in;
  Random random(6);
  for (int i = 0; i < 512; ++i) in.push_back(std::ldexp(float(random.between(1 << 30)), -(i % 40)));
  const auto out =
      outputOf<uint32_t>(3 * 256, convert, {.block = dim3(256)}, DeviceArray<float>(in).get());
  for (size_t i = 0; i < 256; ++i) {
    const float low = in[2 * i], high = in[2 * i + 1];
    ASSERT_EQ(out[3 * i], pairOf(bitsOf(__float2bfloat16(low)), bitsOf(__float2bfloat16(high))));
    ASSERT_EQ(out[3 * i + 1], pairOf(bitsOf(__float2half(low)), bitsOf(__float2half(high))));
    // tf32 has 11 significant bits: the nearest multiple of 2^(exponent - 10), ties away from zero.
    int exponent = 0;
    std::frexp(low, &exponent);
    const float unit = std::ldexp(1.0f, exponent - 11);
    float rounded;
    std::memcpy(&rounded, &out[3 * i + 2], 4);
    ASSERT_EQ(rounded, std::round(low / unit) * unit) << low;
  }
  expectGolden("convert", out);
}

// Each is a float: (1024 + 10 bits) 2^(exponent - 25), without the 1024 where the exponent is 0.
TEST(Matrix, WidensEveryHalf) {
  auto out = outputOf<float>(65536, widenHalves, {.grid = dim3(256), .block = dim3(256)});
  for (int bits = 0; bits < 65536; ++bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const float got = out[size_t(bits)];
    if (exponent == 31 && mantissa != 0) {
      ASSERT_TRUE(std::isnan(got)) << bits;
      out[size_t(bits)] = 0;  // of which bits are not promised
      continue;
    }
    const float size = exponent == 31 ? std::numeric_limits<float>::infinity()
                                      : std::ldexp(float(mantissa + (exponent == 0 ? 0 : 1024)),
                                                   std::max(exponent, 1) - 25);
    ASSERT_EQ(std::fabs(got), size) << bits;
    ASSERT_EQ(std::signbit(got), bits >> 15 != 0) << bits;
  }
  expectGolden("widen_f16", out);
}

std::vector<float> powersOf(const std::vector<float>& in) {
  return outputOf<float>(in.size(), powersOfTwo, {.block = dim3(unsigned(in.size()))},
                         DeviceArray<float>(in).get());
}

// Nothing golden: only how far an approximation may be off is known. PTX allows two units in the
// last place from the rounded power, relatively 2^-22 at most.
TEST(Matrix, HasApproximatePowersOfTwo) {
  std::vector<float> in;
  Random random(7);
  const auto add = [&](int exponent) {
    in.push_back(std::ldexp(float(random.between(1 << 24)), exponent - 24));
  };
  for (int i = 0; i < 256; ++i) add(-(i % 32));
  for (int i = 0; i < 256; ++i) add(6);
  for (int i = -125; i < 128; ++i) in.push_back(float(i));
  const auto out = powersOf(in);
  for (size_t i = 0; i < in.size(); ++i) {
    const double power = float(std::exp2(double(in[i])));
    ASSERT_LE(std::fabs(out[i] - power), 0x1p-22 * power) << in[i];
  }
}

TEST(Matrix, HasPowersOfTwoAtTheEdges) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto expect = [](const std::vector<float>& in, float power) {
    for (const float value : powersOf(in)) {
      ASSERT_EQ(value, power);
      ASSERT_FALSE(std::signbit(value)) << power;
    }
  };
  expect({0.0f, -0.0f, 0x1p-149f, -0x1p-149f, 0x1p-127f, -0x1p-127f}, 1);  // denormal is zero
  expect({-kInfinity, -0x1p120f, -1000, -150, -140.5f, -127}, 0);          // what would be denormal
  expect({kInfinity, 0x1p120f, 1000, 129}, kInfinity);
  ASSERT_TRUE(std::isnan(powersOf({std::numeric_limits<float>::quiet_NaN()})[0]));
}

}  // namespace
}  // namespace tutti::emulation::conformance
