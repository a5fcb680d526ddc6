// Lines in NCCL's form, as NCCL_DEBUG and its companions ask for them, and the last failure.

#include "src/nccl/debug_log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <regex>
#include <string>

#include "src/base/log.h"
#include "tests/support/child_processes.h"
#include "tests/support/temporary_folder.h"

namespace tutti::nccl {
namespace {

uint32_t bitsOf(std::string_view text) { return parseSubsystems(text).bits; }
constexpr uint32_t bit(Subsystem subsystem) { return static_cast<uint32_t>(subsystem); }

TEST(DebugLevel, IsAWordInAnyCase) {
  EXPECT_EQ(parseDebugLevel("WARN"), DebugLevel::Warn);
  EXPECT_EQ(parseDebugLevel("info"), DebugLevel::Info);
  EXPECT_EQ(parseDebugLevel("Version"), DebugLevel::Version);
  for (const char* word : {"", "warning", "WARN ", "3"})
    EXPECT_FALSE(parseDebugLevel(word)) << word;
}

TEST(Subsystems, AreAListOfWords) {
  constexpr uint32_t kDefault = bit(Subsystem::Init) | bit(Subsystem::Env);
  EXPECT_EQ(bitsOf(""), kDefault);
  EXPECT_EQ(bitsOf("COLL"), bit(Subsystem::Coll));
  EXPECT_EQ(bitsOf("coll,Reg,,P2P"),
            bit(Subsystem::Coll) | bit(Subsystem::Reg) | bit(Subsystem::P2p));
  EXPECT_EQ(bitsOf("ALL"), ~0u);
  EXPECT_EQ(bitsOf("^INIT,COLL"), ~(bit(Subsystem::Init) | bit(Subsystem::Coll)));
  EXPECT_EQ(bitsOf("^"), ~0u);
  EXPECT_EQ(bitsOf("GRAPH"), 0U) << "one of NCCL's that has no lines here";
}

TEST(Subsystems, ThatAreUnknownChangeNothing) {
  const SubsystemList list = parseSubsystems("COLL,COL,INITS");
  EXPECT_EQ(list.bits, bit(Subsystem::Coll));
  EXPECT_EQ(list.unknown, (std::vector<std::string>{"COL", "INITS"}));
  EXPECT_EQ(bitsOf("NONE"), bitsOf(""));
}

/// What a child with these variables writes to a file.
std::string linesOf(const char* level, const char* subsystems, const std::function<void()>& body) {
  const tests::TemporaryFolder folder;
  EXPECT_EQ(tests::inChild([&] {
              ::setenv("NCCL_DEBUG", level, 1);
              ::setenv("NCCL_DEBUG_SUBSYS", subsystems, 1);
              ::setenv("NCCL_DEBUG_FILE", (folder.path() / "log").c_str(), 1);
              DebugLog::ofProcess().reset();
              body();
              return 0;
            }),
            0);
  return folder.read("log");
}

void writeAll() {
  DebugLog& log = DebugLog::ofProcess();
  log.info(Subsystem::Init, "init ", 1);
  log.info(Subsystem::Coll, "coll ", 2);
  log.warn("a warning");
}

TEST(DebugLog, WritesLinesInNcclsForm) {
  const std::string text = linesOf("INFO", "COLL", writeAll), who = "[^ :]+:[0-9]+:[0-9]+ \\[0\\] ";
  EXPECT_TRUE(std::regex_match(
      text, std::regex(who + "NCCL INFO coll 2\n" + who + "NCCL WARN a warning\n")))
      << text;
}

TEST(DebugLog, KeepsToItsLevel) {
  EXPECT_TRUE(linesOf("WARN", "ALL", writeAll).ends_with("NCCL WARN a warning\n"));
  EXPECT_EQ(linesOf("WARN", "ALL", writeAll).find("INFO"), std::string::npos);
  EXPECT_EQ(linesOf("VERSION", "ALL", writeAll), "");
  EXPECT_EQ(linesOf("nonsense", "ALL", writeAll), "");
}

TEST(DebugLog, HasTheLibrarysLinesToo) {
  const std::string text = linesOf("INFO", "INIT", [] {
    base::log(LogLevel::Error, "an error");
    base::log(LogLevel::Warning, "a warning");
    base::log(LogLevel::Info, "joined");
    base::log(LogLevel::Debug, "unseen");
  });
  EXPECT_NE(text.find("NCCL WARN an error\n"), std::string::npos) << text;
  EXPECT_NE(text.find("NCCL WARN a warning\n"), std::string::npos) << text;
  EXPECT_NE(text.find("NCCL INFO joined\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("unseen"), std::string::npos) << text;
}

TEST(DebugLog, NamesItsFileByHostAndProcess) {
  const tests::TemporaryFolder folder;
  EXPECT_EQ(tests::inChild([&] {
              ::setenv("NCCL_DEBUG", "WARN", 1);
              ::setenv("NCCL_DEBUG_FILE", (folder.path() / "%p.100%%.%x").c_str(), 1);
              DebugLog::ofProcess().reset();
              DebugLog::ofProcess().warn("here");
              const std::string name = std::to_string(::getpid()) + ".100%.%x";
              return folder.read(name).ends_with("NCCL WARN here\n") ? 0 : 1;
            }),
            0);
}

TEST(DebugLog, KeepsTheLastFailureWhateverItShows) {
  DebugLog& log = DebugLog::ofProcess();
  log.failure("first");
  log.failure("second");
  EXPECT_EQ(log.lastFailure(), "second");
}

}  // namespace
}  // namespace tutti::nccl
