// Which name is meant by a word with a slip in it.

#include "src/base/nearest_name.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace tutti::base {
namespace {

constexpr std::array<std::string_view, 4> kNames{"ring", "double_tree", "direct", "adamw"};

std::string near(std::string_view word) {
  return nearestName(word, std::span<const std::string_view>(kNames)).value_or("none");
}

TEST(NearestName, IsTheOneWithASlip) {
  EXPECT_EQ(near("rin"), "ring");                // left out
  EXPECT_EQ(near("rring"), "ring");              // added
  EXPECT_EQ(near("rong"), "ring");               // replaced
  EXPECT_EQ(near("rign"), "ring");               // swapped: two replaced would be too many
  EXPECT_EQ(near("ADAMW"), "adamw");             // capitals
  EXPECT_EQ(near("doubel_tre"), "double_tree");  // two slips in a long name
  EXPECT_EQ(near("ring"), "ring");
}

TEST(NearestName, IsNoneWhereTooMuchWouldChange) {
  for (const char* word : {"", "r", "rung4", "tree", "sgd", "something else"})
    EXPECT_EQ(near(word), "none") << word;
  EXPECT_EQ(near(std::string(100'000, 'r')), "none");
  EXPECT_EQ(nearestName("ring", std::span<const std::string>()), std::nullopt);
}

TEST(NearestName, IsTheNearestAndOfSeveralTheFirst) {
  const std::vector<std::string> names{"block_a", "block_b", "blocks_b"};
  EXPECT_EQ(nearestName("block_c", std::span<const std::string>(names)), "block_a");
  EXPECT_EQ(nearestName("blocks_c", std::span<const std::string>(names)), "blocks_b");
}

TEST(NearestName, IsAskedFor) {
  const std::vector<std::string> names{"json", "csv"};
  EXPECT_EQ(didYouMean("jsn", names), "; did you mean json?");
  EXPECT_EQ(didYouMean("jsn", names, "--"), "; did you mean --json?");
  EXPECT_EQ(didYouMean("picture", names, "--"), "");
}

TEST(NearestName, OfAWordThatIsRefusedIsNamedBehindAll) {
  const std::vector<std::string> names{"json", "csv", "text"};
  EXPECT_EQ(noneOf("jsn", names), "jsn is not json, csv or text; did you mean json?");
  EXPECT_EQ(noneOf("", names), " is not json, csv or text");
  EXPECT_EQ(noneOf("xml", std::vector<std::string>{"json"}), "xml is not json");
}

}  // namespace
}  // namespace tutti::base
