// The library's environment variables. They are read once in a process, so each case is a child;
// the test itself reads none.

#include "src/base/env.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "src/base/check.h"
#include "tests/support/environment_variables.h"

namespace tutti::base {
namespace {

using tests::withVariables;

TEST(Environment, HasDefaults) {
  const auto expectDefaults = [] {
    EXPECT_EQ(env().log, LogLevel::Warning);
    EXPECT_EQ(env().timeoutMs, 600'000);
    EXPECT_FALSE(env().deterministic);
    EXPECT_EQ(env().algorithm, "");
    EXPECT_EQ(env().slotBytes, 0U);
    EXPECT_FALSE(env().gpuDirect);
    EXPECT_EQ(env().gpuQueues, 8);
  };
  withVariables({}, expectDefaults);
  withVariables({{"TUTTI_LOG", ""}, {"TUTTI_TIMEOUT_MS", ""}, {"TUTTI_GPU_DIRECT", ""}},
                expectDefaults);
}

TEST(Environment, IsReadOnce) {
  withVariables({{"TUTTI_TIMEOUT_MS", "1"},
                 {"TUTTI_DETERMINISTIC", "1"},
                 {"TUTTI_ALGORITHM", "ring/2"},
                 {"TUTTI_ALGORITHM_FILE", "/plans/a.json"},
                 {"TUTTI_SLOT_BYTES", "67108864"},
                 {"TUTTI_STRAGGLER_MS", "0"},
                 {"TUTTI_GPU_DIRECT", "0"},
                 {"TUTTI_LOG", "debug"}},
                [] {
                  EXPECT_EQ(env().timeoutMs, 1);
                  EXPECT_TRUE(env().deterministic);
                  EXPECT_EQ(env().algorithm, "ring/2");
                  EXPECT_EQ(env().algorithmFile, "/plans/a.json");
                  EXPECT_EQ(env().slotBytes, size_t{64} << 20);
                  EXPECT_EQ(env().stragglerMs, 0);
                  EXPECT_EQ(env().gpuDirect, false);
                  EXPECT_EQ(env().log, LogLevel::Debug);
                  ::setenv("TUTTI_TIMEOUT_MS", "2", 1);
                  EXPECT_EQ(env().timeoutMs, 1);
                });
  withVariables({{"TUTTI_LOG", "off"}}, [] { EXPECT_FALSE(env().log); });
}

TEST(Environment, SaysEachValueAsText) {
  const EnvReading reading = readEnv([](const char* name) -> const char* {
    const std::string asked = name;
    if (asked == "TUTTI_STRAGGLER_MS") return "7";
    if (asked == "TUTTI_LOG") return "debug";
    if (asked == "TUTTI_ENCRYPTION") return "on";
    if (asked == "TUTTI_GPU_DIRECT") return "1";
    if (asked == "TUTTI_ALGORITHM") return "ring";
    if (asked == "TUTTI_GPU_BLOCKS") return "many";
    return nullptr;
  });
  std::map<std::string, std::string> values;
  for (const auto& [name, value] : reading.values) {
    EXPECT_EQ(values.count(name), 0U) << name;
    values[name] = value;
  }
  EXPECT_EQ(values["TUTTI_STRAGGLER_MS"], "7");
  EXPECT_EQ(values["TUTTI_LOG"], "debug");
  EXPECT_EQ(values["TUTTI_ENCRYPTION"], "on");
  EXPECT_EQ(values["TUTTI_GPU_DIRECT"], "1");
  EXPECT_EQ(values["TUTTI_ALGORITHM"], "ring");
  EXPECT_EQ(values["TUTTI_GPU_BLOCKS"], "0");  // malformed: the default
  EXPECT_EQ(values["TUTTI_TIMEOUT_MS"], "600000");
  EXPECT_EQ(values["TUTTI_DETERMINISTIC"], "0");
  EXPECT_EQ(values["TUTTI_INTERFACE"], "");
  EXPECT_EQ(values["TUTTI_GPU_IPC"], "");
  EXPECT_GE(values.size(), 20U);
}

// Any source of variables has its own settings, and the first mistake is told.
TEST(Environment, IsReadFromAnySource) {
  const auto readingOf = [](const std::string& name, const char* value) {
    return readEnv([&](const char* asked) { return name == asked ? value : nullptr; });
  };
  const EnvReading good = readingOf("TUTTI_STRAGGLER_MS", "7");
  EXPECT_EQ(good.env.stragglerMs, 7);
  EXPECT_FALSE(good.malformed);
  const EnvReading bad = readingOf("TUTTI_GPU_BLOCKS", "many");
  EXPECT_EQ(bad.env.gpuBlocks, 0);
  ASSERT_TRUE(bad.malformed);
  EXPECT_STREQ(bad.malformed->what(), "TUTTI_GPU_BLOCKS=many is not a whole number from 0 to 1024");
}

/// What env() says of it, each time that it is called; and others have their defaults.
void expectRefused(const char* name, const char* value, const std::string& said) {
  withVariables({{name, value}, {"TUTTI_INTERFACE", "eth7"}}, [&] {
    for (int times = 0; times < 2; ++times) {
      try {
        env();
        ADD_FAILURE() << name << "=" << value << " was accepted";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
        EXPECT_EQ(error.what(), said);
      }
    }
    EXPECT_EQ(lenientEnv().timeoutMs, 600'000);
    EXPECT_EQ(lenientEnv().log, LogLevel::Warning);
    EXPECT_FALSE(lenientEnv().deterministic);
    EXPECT_EQ(lenientEnv().interface, "eth7");
  });
}

TEST(Environment, NamesWhatIsMalformed) {
  const std::string range = " is not a whole number from 1 to 3153600000000";
  for (const char* value : {"0", "-1", "1.5", "1s", " 1", "3153600000001", "99999999999999999999"})
    expectRefused("TUTTI_TIMEOUT_MS", value, std::string("TUTTI_TIMEOUT_MS=") + value + range);
  expectRefused("TUTTI_DETERMINISTIC", "2",
                "TUTTI_DETERMINISTIC=2 is not a whole number from 0 to 1");
  expectRefused("TUTTI_LOG", "loud\n",
                "TUTTI_LOG=loud? is none of debug, info, warning, error, off");
}

// The first of several.
TEST(Environment, NamesTheFirstThatIsMalformed) {
  withVariables({{"TUTTI_TIMEOUT_MS", "x"}, {"TUTTI_DETERMINISTIC", "x"}}, [] {
    try {
      env();
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("TUTTI_TIMEOUT_MS=x ")) << error.what();
    }
  });
}

// As CUDA reads it: the nearest number that there can be.
TEST(Environment, TakesCudasQueuesAsCudaDoes) {
  for (const auto& [value, queues] : std::vector<std::pair<const char*, long>>{
           {"1", 1}, {"32", 32}, {"33", 32}, {"0", 8}, {"-4", 8}, {"many", 8}, {"4x", 4}})
    withVariables({{"CUDA_DEVICE_MAX_CONNECTIONS", value}},
                  [queues = queues] { EXPECT_EQ(env().gpuQueues, queues); });
}

}  // namespace
}  // namespace tutti::base
