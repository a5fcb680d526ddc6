// `make demo` as a person meets it: the text of The Jargon File, 4 ranks, nothing else said. The
// model must learn it to what the README promises, say so in its last line, and write some.
// Arguments of this test: train_gpt, unpack-jargon.sh, and the text's file.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "tests/support/run_program.h"
#include "tests/support/test_main.h"

namespace tutti::parallel {
namespace {

using tests::Output;
using tests::runProgram;

std::string trainGpt, unpack, text;
const tests::Arguments commandLine{
    {"TRAIN_GPT", &trainGpt}, {"UNPACK_JARGON", &unpack}, {"TEXT", &text}};

TEST(Demo, LearnsTheJargonFile) {
  const Output unpacked = runProgram("'" + unpack + "' '" + text + "'");
  ASSERT_EQ(unpacked.exitCode, 0) << unpacked.text;

  const Output output = runProgram("'" + trainGpt + "' --ranks 4 --text '" + text + "'");
  std::printf("%s\n", output.text.c_str());
  ASSERT_EQ(output.exitCode, 0);
  EXPECT_EQ(output.count(", 4 ranks, "), 1);

  const std::string last = output.lastLine();
  double loss = 0;
  ASSERT_EQ(std::sscanf(last.c_str(), "validation loss %lf nats a byte", &loss), 1) << last;
  EXPECT_LT(loss, 2.3);
  EXPECT_GT(loss, 1.0) << "better than a model of this size can be: was the text seen in training?";

  // 400 bytes by default, behind an empty line. Letters and spaces make up most of any English.
  const size_t end = output.text.rfind("validation loss"),
               begin = output.text.rfind("tokens/s", end);
  const size_t blank = output.text.find("\n\n", begin);
  ASSERT_LT(blank, end) << "no text was written";
  const std::string written = output.text.substr(blank, end - blank);
  EXPECT_GE(written.size(), 400u);
  const auto plain = [](char c) { return c == ' ' || (c >= 'a' && c <= 'z'); };
  EXPECT_GT(std::count_if(written.begin(), written.end(), plain), 200) << written;
}

}  // namespace
}  // namespace tutti::parallel
