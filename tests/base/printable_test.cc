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
}

TEST(Printable, ShowsBytesThatAreNoUtf8AsQuestions) {
  EXPECT_EQ(printable("a\xC2"), "a?") << "cut off";
  EXPECT_EQ(printable("\x9B"
                      "31m"),
            "?31m")
      << "a command to terminals that know nothing of UTF-8";
  EXPECT_EQ(printable("gr\xFC\xDF"), "gr??") << "of another coding";
}

TEST(Printable, LeavesLines) {
  EXPECT_EQ(printableLines("a\n\tb\r\x1B\xFFz"), "a\n\tb???z");
  EXPECT_EQ(printable("a\n\tb"), "a??b");
}

TEST(Utf8, StaysWhereItIsOne) {
  for (const char* text : {"", "a\n\x01", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF",
                           "\xEE\x80\x80", "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"})
    EXPECT_EQ(asUtf8(text), text);
}

TEST(Utf8, HasAReplacementForEveryOtherByte) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(asUtf8("h\xF6st"), "h" + r + "st");
  for (const char* two : {"\xC0\x80", "\xC1\xBF", "\xE0\xA0", "\xF0\x90", "\x80\xBF", "\xFE\xFF"})
    EXPECT_EQ(asUtf8(two), r + r) << "of " << printable(two);
  for (const char* three : {"\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x90\x80"})
    EXPECT_EQ(asUtf8(three), r + r + r);
  for (const char* four : {"\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80"})
    EXPECT_EQ(asUtf8(four), r + r + r + r);
  EXPECT_EQ(asUtf8("\xE2\x82z"), r + r + "z") << "the byte behind it stays";
}

}  // namespace
}  // namespace tutti::base
