// The scalar conversions against the reference's table: every pattern widened, every pattern
// narrowed back, and around every value and every midpoint between two neighbours.

#include "src/numbers/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <tutti/error.h>
#include "src/numbers/element.h"
#include "tests/numbers/reference.h"

namespace tutti::numbers {
namespace {

struct Conversion {
  DataType type;
  float (*widen)(uint64_t);
  uint64_t (*narrow)(float);
};
const Conversion kConversions[] = {
    {DataType::Float16, [](uint64_t b) { return fromFloat16(static_cast<uint16_t>(b)); },
     [](float x) { return uint64_t{toFloat16(x)}; }},
    {DataType::BFloat16, [](uint64_t b) { return fromBFloat16(static_cast<uint16_t>(b)); },
     [](float x) { return uint64_t{toBFloat16(x)}; }},
    {DataType::Float8E4M3, [](uint64_t b) { return fromFloat8E4M3(static_cast<uint8_t>(b)); },
     [](float x) { return uint64_t{toFloat8E4M3(x)}; }},
    {DataType::Float8E5M2, [](uint64_t b) { return fromFloat8E5M2(static_cast<uint8_t>(b)); },
     [](float x) { return uint64_t{toFloat8E5M2(x)}; }},
};

class Convert : public testing::TestWithParam<Conversion> {
 protected:
  DataType type_ = GetParam().type;
  uint64_t patterns_ = uint64_t{1} << (8 * sizeOf(type_));
  uint64_t signBit_ = patterns_ / 2;
  float widen(uint64_t bits) const { return GetParam().widen(bits); }
  uint64_t narrow(float x) const { return GetParam().narrow(x); }
  bool isNan(uint64_t bits) const { return std::isnan(reference::decode(type_, bits)); }

  void expectNarrow(float x) const {
    const uint64_t got = narrow(x);
    const uint64_t want = reference::encodeReduced(type_, x);
    if (isNan(want))
      ASSERT_TRUE(isNan(got)) << toString(type_) << " of " << x << " gives " << got;
    else
      ASSERT_EQ(got, want) << toString(type_) << " of " << x;
  }
  void expectNarrowAround(float x) const {
    for (const float sign : {1.0f, -1.0f}) {
      expectNarrow(sign * x);
      expectNarrow(sign * std::nextafter(x, std::numeric_limits<float>::infinity()));
      expectNarrow(sign * std::nextafter(x, 0.0f));
    }
  }
};

TEST_P(Convert, WidensEveryPattern) {
  for (uint64_t bits = 0; bits < patterns_; ++bits) {
    const double want = reference::decode(type_, bits);
    const float got = widen(bits);
    ASSERT_EQ(std::signbit(got), (bits & signBit_) != 0) << bits;
    if (std::isnan(want))
      ASSERT_TRUE(std::isnan(got)) << bits;
    else
      ASSERT_EQ(static_cast<double>(got), want) << bits;
  }
}

TEST_P(Convert, NarrowsEveryPatternBackToItself) {
  for (uint64_t bits = 0; bits < patterns_; ++bits) {
    if (isNan(bits))
      ASSERT_TRUE(isNan(narrow(widen(bits)))) << bits;
    else
      ASSERT_EQ(narrow(widen(bits)), bits);
  }
}

TEST_P(Convert, RoundsToNearestEvenAroundEveryValueAndMidpoint) {
  for (uint64_t bits = 0; bits + 1 < signBit_; ++bits) {
    const double low = reference::decode(type_, bits);
    const double high = reference::decode(type_, bits + 1);
    if (!std::isfinite(low)) break;
    expectNarrowAround(static_cast<float>(low));
    // Midpoints are exact in float32: it has more than one bit more than any of these types.
    if (std::isfinite(high)) expectNarrowAround(static_cast<float>((low + high) / 2));
  }
}

TEST_P(Convert, RoundsAboveTheLargestValue) {
  double largest = 0, before = 0;
  for (uint64_t bits = 0; std::isfinite(reference::decode(type_, bits)); ++bits) {
    before = largest;
    largest = reference::decode(type_, bits);
  }
  const double step = largest - before;
  expectNarrowAround(static_cast<float>(largest + step / 2));
  expectNarrow(static_cast<float>(largest + step));
  expectNarrow(static_cast<float>(largest * 4));
  expectNarrow(std::numeric_limits<float>::max());
  expectNarrow(-std::numeric_limits<float>::max());
  expectNarrow(std::numeric_limits<float>::infinity());
  expectNarrow(-std::numeric_limits<float>::infinity());
}

TEST_P(Convert, RoundsEveryUpperHalfOfAFloat) {
  for (uint32_t upper = 0; upper < 0x10000; ++upper)
    for (const uint32_t lower :
         {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const float x = std::bit_cast<float>(upper << 16 | lower);
      expectNarrow(x);
      if (HasFatalFailure()) return;
    }
}

TEST_P(Convert, KeepsNanQuietAndItsSign) {
  const uint64_t quietBit = type_ == DataType::Float8E4M3
                                ? 0
                                : uint64_t{1} << (type_ == DataType::Float16    ? 9
                                                  : type_ == DataType::BFloat16 ? 6
                                                                                : 1);
  for (const uint32_t payload : {1u, 0x1fffu, 0x200000u, 0x3fffffu, 0x400000u, 0x7fffffu})
    for (const uint32_t sign : {0u, 0x80000000u}) {
      const uint64_t got = narrow(std::bit_cast<float>(sign | 0x7f800000u | payload));
      EXPECT_TRUE(isNan(got)) << std::hex << payload;
      EXPECT_EQ(got & quietBit, quietBit) << std::hex << payload;
      EXPECT_EQ((got & signBit_) != 0, sign != 0) << std::hex << payload;
    }
}

INSTANTIATE_TEST_SUITE_P(Types, Convert, testing::ValuesIn(kConversions),
                         [](const auto& instance) { return toString(instance.param.type); });

// The published landmarks of the OCP formats and binary16, so that code and reference cannot be
// wrong together.
TEST(ConvertLandmarks, AreThePublishedOnes) {
  EXPECT_EQ(fromFloat8E4M3(0x7e), 448.0f);
  EXPECT_EQ(fromFloat8E4M3(0x08), 0x1p-6f);
  EXPECT_EQ(fromFloat8E4M3(0x01), 0x1p-9f);
  EXPECT_TRUE(std::isnan(fromFloat8E4M3(0x7f)) && std::isnan(fromFloat8E4M3(0xff)));
  EXPECT_EQ(toFloat8E4M3(464.0f), 0x7e);  // halfway to 480, ties to the even 448
  EXPECT_EQ(toFloat8E4M3(465.0f), 0x7f);
  EXPECT_EQ(fromFloat8E5M2(0x7b), 57344.0f);
  EXPECT_EQ(fromFloat8E5M2(0x7c), std::numeric_limits<float>::infinity());
  EXPECT_EQ(fromFloat8E5M2(0x01), 0x1p-16f);
  EXPECT_EQ(fromFloat16(0x7bff), 65504.0f);
  EXPECT_EQ(fromFloat16(0x0001), 0x1p-24f);
  EXPECT_EQ(toFloat16(65519.0f), 0x7bff);
  EXPECT_EQ(toFloat16(65520.0f), 0x7c00);
  EXPECT_EQ(fromBFloat16(0x3f80), 1.0f);
  EXPECT_EQ(fromBFloat16(0x7f7f), 0x1.fep127f);
  EXPECT_EQ(toBFloat16(std::numeric_limits<float>::denorm_min()), 0);
}

// Of every type, at an odd address.
TEST(ElementAt, IsTheReferencesValue) {
  std::mt19937_64 random(1);
  for (int t = 0; t < kDataTypeCount; ++t) {
    const auto type = static_cast<DataType>(t);
    for (int i = 0; i < 2000; ++i) {
      alignas(8) char bytes[9] = {};
      const uint64_t bits = random();
      std::memcpy(bytes + 1, &bits, sizeof bits);
      const double expected = reference::valueAt(type, &bits, 0), got = elementAt(type, bytes + 1);
      ASSERT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected)))
          << toString(type) << " " << got << " " << expected;
    }
  }
  EXPECT_THROW(elementAt(static_cast<DataType>(kDataTypeCount), ""), Error);
}

}  // namespace
}  // namespace tutti::numbers
