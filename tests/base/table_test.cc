// Tables that people read.

#include "src/base/table.h"

#include <gtest/gtest.h>

namespace tutti::base {
namespace {

TEST(Tables, HaveColumns) {
  const TextTable table({{5, 0}, {4, 1, true}, {3}});
  EXPECT_EQ(table.row({"1", "ab", "7"}), "    1 ab      7\n");
  EXPECT_EQ(table.row({"1", "ab"}), "    1 ab\n");
  EXPECT_EQ(table.row({"1234567", "abcdef", "7"}), "1234567 abcdef    7\n");
  EXPECT_EQ(table.comment({"a", "", "b"}), "#   a         b\n");
  EXPECT_EQ(TextTable::fitting({{"rank", "idle"}, {"0", "10%"}}), "rank  idle\n0     10%\n");
}

TEST(Tables, StandWhereTheLetterOfTheirColumnSays) {
  const std::vector<TextTable::Cells> rows{{"rank", "idle", "busy"}, {"0", "1", "2"}};
  EXPECT_EQ(TextTable::fitting(rows), "rank  idle  busy\n0     1     2\n");
  EXPECT_EQ(TextTable::fitting(rows, "rl"), "rank  idle  busy\n   0  1     2\n");
  EXPECT_EQ(TextTable::fitting(rows, "lr"), "rank  idle  busy\n0        1     2\n");
  EXPECT_EQ(TextTable::markdown(rows, "lr"),
            "| rank | idle | busy |\n| --- | ---: | ---: |\n| 0 | 1 | 2 |\n");
  EXPECT_EQ(TextTable::markdown({{"rank"}}), "| rank |\n| --- |\n");
}

TEST(Tables, HaveNumbersOfSoManyDigits) {
  EXPECT_EQ(fixed(1.005, 1), "1.0");
  EXPECT_EQ(significant(1234567, 3), "1.23e+06");
}

}  // namespace
}  // namespace tutti::base
