// The command line of `tutti run`.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/tools/run/run.h"

namespace tutti::tools {
namespace {

using Words = std::vector<std::string>;

std::variant<LaunchOptions, int> parsed(const Words& words) {
  std::vector<const char*> arguments{"run"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  return parseRun(static_cast<int>(arguments.size()), arguments.data());
}

LaunchOptions parse(const Words& words) {
  auto result = parsed(words);
  EXPECT_TRUE(std::holds_alternative<LaunchOptions>(result));
  return std::get<LaunchOptions>(std::move(result));
}

/// What is printed of a wrong command line, without where help is.
std::string refusal(const Words& words) {
  testing::internal::CaptureStderr();
  const auto result = parsed(words);
  const std::string said = testing::internal::GetCapturedStderr();
  if (!std::holds_alternative<int>(result)) return "accepted";
  EXPECT_EQ(std::get<int>(result), 2);
  const size_t end = said.rfind(" (tutti run --help shows the flags)\n");
  EXPECT_NE(end, std::string::npos) << said;
  return said.substr(0, end);
}

TEST(RunOptions, TakeEachForm) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"-n", "4", "a", "b"},
                                                {"-n4", "a", "b"},
                                                {"--ranks", "4", "a", "b"},
                                                {"--ranks=4", "--", "a", "b"}}) {
    const LaunchOptions options = parse(words);
    EXPECT_EQ(options.ranks, 4);
    EXPECT_EQ(options.command, (std::vector<std::string>{"a", "b"}));
    EXPECT_TRUE(options.prefixOutput);
    EXPECT_FALSE(options.keepGoing);
  }
  const LaunchOptions options = parse(
      {"--no-prefix", "--output=logs", "--grace", "0.25", "--restarts=3", "-n", "1", "program"});
  EXPECT_FALSE(options.prefixOutput);
  EXPECT_EQ(options.outputDirectory, "logs");
  EXPECT_EQ(options.gracePeriod.count(), 250);
  EXPECT_EQ(options.restarts, 3);
  EXPECT_EQ(parse({"-n", "1", "--restarts", "0", "program"}).restarts, 0);
  EXPECT_TRUE(parse({"-n", "1", "--keep-going", "program"}).keepGoing);
}

TEST(RunOptions, TakeTheLastOfWhatIsGivenTwice) {
  EXPECT_EQ(parse({"-n", "2", "--ranks=3", "a"}).ranks, 3);
  EXPECT_TRUE(parse({"-n", "2", "--no-prefix", "--prefix", "a"}).prefixOutput);
  EXPECT_FALSE(parse({"-n", "2", "--no-prefix", "--prefix", "--no-prefix", "a"}).prefixOutput);
  EXPECT_EQ(parse({"-n", "2", "--grace", "1", "--grace", "2", "a"}).gracePeriod.count(), 2000);
}

TEST(RunOptions, LeaveTheProgramItsOwn) {
  EXPECT_EQ(parse({"-n", "2", "program", "-n", "9", "--", "--help"}).command,
            (Words{"program", "-n", "9", "--", "--help"}));
  EXPECT_EQ(parse({"-n", "2", "--", "-odd-name"}).command, Words{"-odd-name"});
  EXPECT_EQ(parse({"-n", "2", "--", "--", "--"}).command, (Words{"--", "--"}));
  EXPECT_EQ(parse({"-n", "2", "a", "", "-h", "--no-prefix", "-ox", "++", "b=\"c\" d"}).command,
            (Words{"a", "", "-h", "--no-prefix", "-ox", "++", "b=\"c\" d"}));
}

TEST(RunOptions, NameWhatIsWrong) {
  for (const char* ranks : {"0", "-1", "4097", "100000", "1000000000000", "four", "4x", ""})
    EXPECT_EQ(refusal({"-n", ranks, "a"}),
              std::string("tutti run: --ranks: Value ") + ranks + " not in range 1 to 4096");
  const std::string unexpected = "tutti run: there is no flag ";
  EXPECT_EQ(refusal({"-n", "2", "--bogus", "a"}), unexpected + "--bogus");
  EXPECT_EQ(refusal({"-n", "2", "-x", "a"}), unexpected + "-x");
  EXPECT_EQ(refusal({"-n", "2", "-", "a"}), unexpected + "-");
  EXPECT_EQ(refusal({"-n", "2", "--bogus", "--", "a"}), unexpected + "--bogus");
  // CLI11 would take it for "-o utput", and the program for "logs".
  EXPECT_EQ(refusal({"-n", "2", "-output", "logs", "a"}), unexpected + "-output");
  EXPECT_EQ(refusal({"-n", "2", "-ologs", "a"}), unexpected + "-ologs");
  for (const char* glued : {"-no-prefix", "-n4x", "-n0"})
    EXPECT_NE(refusal({glued, "-n", "2", "a"}), "accepted") << glued;
  EXPECT_EQ(refusal({"-n"}), "tutti run: --ranks: 1 required INT:INT in [1 - 4096] missing");
  EXPECT_EQ(refusal({"a"}), "tutti run: --ranks is required");
  EXPECT_EQ(refusal({}), "tutti run: --ranks is required");
  for (const Words& words : {Words{"-n", "2"}, {"-n", "2", "--"}, {"-n", "2", ""}})
    EXPECT_EQ(refusal(words), "tutti run: PROGRAM is required");
  for (const char* restarts : {"-1", "1001", "two", ""})
    EXPECT_EQ(refusal({"-n", "2", "--restarts", restarts, "a"}),
              std::string("tutti run: --restarts: Value ") + restarts + " not in range 0 to 1000");
  for (const char* option : {"--grace", "--output-timeout"})
    for (const char* seconds : {"-1", "nan", "soon", "", "1e9"})
      EXPECT_EQ(refusal({"-n", "2", option, seconds, "a"}),
                base::message("tutti run: ", option, ": ", seconds,
                              " is no number of seconds from 0 to 1000000"));
  EXPECT_EQ(refusal({"-n", "2", "--keep-going", "--restarts", "1", "a"}),
            "tutti run: --restarts excludes --keep-going");
  EXPECT_EQ(refusal({"-n", "2", "-o", "", "a"}),
            "tutti run: --output: it needs the name of a folder");
}

TEST(RunOptions, HelpHasTheDefaultsAndIsNotAnError) {
  for (const Words& words : {Words{"--help"}, {"-n", "2", "-h", "a"}}) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(std::get<int>(parsed(words)), 0);
    const std::string said = testing::internal::GetCapturedStdout();
    for (const char* part : {"Usage: tutti run [OPTIONS] [--] PROGRAM [ARGUMENTS...]\n",
                             "--restarts INT:INT in [0 - 1000]=0", "--grace FLOAT:SECONDS=10",
                             "--output-timeout FLOAT:SECONDS=600"})
      EXPECT_NE(said.find(part), std::string::npos) << part << " in " << said;
  }
}

}  // namespace
}  // namespace tutti::tools
