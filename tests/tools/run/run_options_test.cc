// The command line of `tutti run`.

#include <gtest/gtest.h>

#include <tutti/error.h>

#include "src/tools/run/run.h"

namespace tutti::tools {
namespace {

LaunchOptions parse(const std::vector<std::string>& words) {
  return std::get<LaunchOptions>(parseRun(words));
}

std::string refusal(const std::vector<std::string>& words) {
  try {
    parseRun(words);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    return error.what();
  }
  return "accepted";
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
  }
  const LaunchOptions options = parse(
      {"--no-prefix", "--output=logs", "--grace", "0.25", "--restarts=3", "-n", "1", "program"});
  EXPECT_FALSE(options.prefixOutput);
  EXPECT_EQ(options.outputDirectory, "logs");
  EXPECT_EQ(options.gracePeriod.count(), 250);
  EXPECT_EQ(options.restarts, 3);
  EXPECT_EQ(parse({"-n", "1", "--restarts", "0", "program"}).restarts, 0);
}

TEST(RunOptions, LeaveTheProgramItsOwn) {
  EXPECT_EQ(parse({"-n", "2", "program", "-n", "9", "--", "--help"}).command,
            (std::vector<std::string>{"program", "-n", "9", "--", "--help"}));
  EXPECT_EQ(parse({"-n", "2", "--", "-odd-name"}).command, (std::vector<std::string>{"-odd-name"}));
}

TEST(RunOptions, NameWhatIsWrong) {
  for (const char* ranks : {"0", "-1", "4097", "100000", "1000000000000", "four", "4x", ""})
    EXPECT_EQ(
        refusal({"-n", ranks, "a"}),
        std::string("-n ") + ranks + ": the number of ranks is a whole number from 1 to 4096");
  EXPECT_EQ(refusal({"-n", "2", "--bogus", "a"}), "unknown option --bogus");
  EXPECT_EQ(refusal({"-x", "a"}), "unknown option -x");
  EXPECT_EQ(refusal({"-n", "2", "-output", "logs", "a"}), "unknown option -output");
  EXPECT_EQ(refusal({"-n", "2", "-ologs", "a"}), "unknown option -ologs");
  EXPECT_EQ(refusal({"-no-prefix", "-n", "2", "a"}), "unknown option -no-prefix");
  EXPECT_EQ(refusal({"-n4x", "a"}), "unknown option -n4x");
  EXPECT_EQ(refusal({"-n0", "a"}).substr(0, 6), "-n 0: ");
  EXPECT_EQ(refusal({"-n"}), "-n needs a value");
  EXPECT_EQ(refusal({"a"}), "how many ranks? -n N says it");
  EXPECT_EQ(refusal({}), "how many ranks? -n N says it");
  EXPECT_EQ(refusal({"-n", "2"}), "no program to run");
  EXPECT_EQ(refusal({"-n", "2", "--"}), "no program to run");
  for (const char* restarts : {"-1", "1001", "two", ""})
    EXPECT_EQ(refusal({"-n", "2", "--restarts", restarts, "a"}),
              std::string("--restarts ") + restarts +
                  ": the number of restarts is a whole number from 0 to 1000");
  for (const char* grace : {"-1", "nan", "soon", "", "1e9"})
    EXPECT_NE(refusal({"-n", "2", "--grace", grace, "a"}).find("seconds from 0"), std::string::npos)
        << grace;
}

TEST(RunOptions, HelpIsNotAnError) {
  EXPECT_TRUE(std::holds_alternative<HelpWanted>(parseRun({"--help"})));
  EXPECT_TRUE(std::holds_alternative<HelpWanted>(parseRun({"-n", "2", "-h", "a"})));
}

}  // namespace
}  // namespace tutti::tools
