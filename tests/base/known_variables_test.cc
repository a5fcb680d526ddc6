// Variables that have no meaning are named, each with the one that is probably meant.

#include "src/base/known_variables.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/base/env.h"
#include "src/base/log.h"
#include "tests/support/environment_variables.h"

namespace tutti::base {
namespace {

using tests::withVariables;

using Lines = std::vector<std::string>;

TEST(KnownVariables, AreInOrderAndOurs) {
  for (const auto& list : {knownVariables(), developersVariables()})
    for (const std::string_view name : list) {
      EXPECT_TRUE(name.starts_with("TUTTI_")) << name;
      EXPECT_EQ(std::ranges::count(list, name), 1) << name;
    }
  EXPECT_TRUE(std::ranges::is_sorted(knownVariables()));
}

TEST(KnownVariables, HaveWhatTheLibraryReads) {
  for (const auto& [name, value] : readEnv([](const char*) { return nullptr; }).values) {
    if (!name.starts_with("TUTTI_")) continue;
    EXPECT_EQ(std::ranges::count(knownVariables(), name), 1) << name;
  }
}

TEST(UnknownVariables, AreThoseWithoutAMeaning) {
  const char* const environment[] = {"TUTTI_LOG=debug", "TUTTI_CUDA=OFF",  "TUTTI_TEST_SEED=1",
                                     "PATH=/bin",       "MY_TUTTI_WORD=1", "TUTTI_TRANSPROT=tcp",
                                     "TUTTI_\x1b[2J",   "TUTTI_ANYTHING=", nullptr};
  EXPECT_EQ(
      unknownVariables(environment),
      (Lines{"TUTTI_?[2J", "TUTTI_ANYTHING", "TUTTI_TRANSPROT (did you mean TUTTI_TRANSPORT?)"}));
  EXPECT_EQ(unknownVariables(nullptr), Lines{});
}

/// What two warnings of one process say.
Lines warned() {
  Lines lines;
  setLogSink([&](LogLevel level, std::string_view line) {
    lines.push_back(std::string(toString(level)) + ": " + std::string(line));
  });
  warnOfUnknownVariables();
  warnOfUnknownVariables();
  setLogSink({});
  return lines;
}

TEST(UnknownVariables, AreNamedOnce) {
  withVariables({{"TUTTI_TIMEOUT", "5"}, {"TUTTI_ZZZ", ""}, {"TUTTI_RANK", "0"}}, [] {
    EXPECT_EQ(warned(), (Lines{"warning: variables without a meaning here, ignored: TUTTI_TIMEOUT "
                               "(did you mean TUTTI_TIMEOUT_MS?), TUTTI_ZZZ"}));
  });
  withVariables({{"TUTTI_TIMEOUT_MS", "5"}}, [] { EXPECT_EQ(warned(), Lines{}); });
}

}  // namespace
}  // namespace tutti::base
