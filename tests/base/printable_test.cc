// What others have written, where a terminal may show it.

#include "src/base/printable.h"

#include <gtest/gtest.h>

namespace tutti::base {
namespace {

TEST(Printable, LeavesTextAsItIs) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("a b~"), "a b~");
  EXPECT_EQ(printable("gr\xC3\xBC\xC3\x9F"), "gr\xC3\xBC\xC3\x9F");
  EXPECT_EQ(printable("\xC2\xA0"), "\xC2\xA0") << "the first behind the control characters";
}

TEST(Printable, ShowsControlCharactersAsQuestions) {
  EXPECT_EQ(printable("\x1B[31mred\x7F"), "?[31mred?");
  EXPECT_EQ(printable(std::string_view("\0\n\t\x1F ", 5)), "???? ");
  EXPECT_EQ(printable("a\xC2\x80z"), "a?z");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "?31m");
  EXPECT_EQ(printable("a\xC2"), "a\xC2") << "cut off";
}

}  // namespace
}  // namespace tutti::base
