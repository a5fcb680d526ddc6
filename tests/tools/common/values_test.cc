// Numbers and lists that flags take.

#include "src/tools/common/values.h"

#include <gtest/gtest.h>

#include <tutti/error.h>

#include "src/tools/common/median.h"

namespace tutti::tools {
namespace {

TEST(Bytes, AreWholeNumbersOrHaveASuffix) {
  EXPECT_EQ(parseBytes("-b", "0"), 0u);
  EXPECT_EQ(parseBytes("-b", "17"), 17u);
  EXPECT_EQ(parseBytes("-b", "3k"), 3u << 10);
  EXPECT_EQ(parseBytes("-b", "3M"), 3u << 20);
  EXPECT_EQ(parseBytes("-b", "17179869183G"), 17179869183ull << 30);
  EXPECT_EQ(parseBytes("-b", "1.5M"), 3u << 19);
  EXPECT_EQ(parseBytes("-b", "0.1k"), 102u);
  EXPECT_EQ(parseBytes("-b", "17179869183.5G"), (17179869183ull << 30) + (1u << 29));
  for (const char* text : {"", "G", "-1", "1.5", "1.M", "1.-5M", "1.5e1M", "1.5T", "1T", "8 ",
                           "1KB", "17179869184G", "18446744073709551616"})
    EXPECT_THROW(parseBytes("-b", text), Error) << text;
}

TEST(Values, AreWholeNumbersWithinLimits) {
  EXPECT_EQ(parseWhole("--n", "-3", -3, 7), -3);
  EXPECT_EQ(parseWhole("--n", "7", -3, 7), 7);
  for (const char* text : {"", "-4", "8", "1.0", "+1", " 1", "1 ", "1K", "99999999999999999999"})
    try {
      parseWhole("--n", text, -3, 7);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                std::string("--n ") + text + " is not a whole number from -3 to 7");
    }
}

// The places of the binomial's 2.5% tails: 1 and 6 of 6, 2 and 9 of 10 (Conover, "Practical
// Nonparametric Statistics").
TEST(Medians, HaveTheirInterval) {
  const auto interval = [](std::vector<double> values) {
    const MedianInterval m = medianOf(std::move(values));
    return std::vector<double>{m.least, m.middle, m.most};
  };
  EXPECT_EQ(interval({5}), (std::vector<double>{5, 5, 5}));
  EXPECT_EQ(interval({3, 1}), (std::vector<double>{1, 3, 3}));
  EXPECT_EQ(interval({3, 1, 2}), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(interval({6, 5, 4, 3, 2, 1}), (std::vector<double>{1, 4, 6}));
  EXPECT_EQ(interval({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), (std::vector<double>{2, 6, 9}));
}

}  // namespace
}  // namespace tutti::tools
