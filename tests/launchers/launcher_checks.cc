#include "tests/launchers/launcher_checks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <sstream>

#include "tests/launchers/kept.h"
#include "tests/support/test_main.h"

namespace tutti::launchers {
namespace {

using launcher::Command;
using launcher::eventually;
using launcher::TemporaryFolder;

constexpr std::array kForeign{"TUTTI_",        "SLURM", "OMPI_",       "PMI_",           "PMIX_",
                              "MPI_LOCAL",     "RANK=", "WORLD_SIZE=", "LOCAL_",         "MASTER_",
                              "TORCHELASTIC_", "HYDI_", "LWS_",        "JOB_COMPLETION_"};

void prepareEnvironment() {
  Words names;
  for (char** entry = environ; *entry; ++entry) {
    const std::string variable = *entry;
    if (std::ranges::any_of(kForeign,
                            [&](const char* start) { return variable.starts_with(start); }))
      names.push_back(variable.substr(0, variable.find('=')));
  }
  for (const std::string& name : names) unsetenv(name.c_str());
  // Daemons are not on everybody's path; and no rank is waited for longer than a test lasts.
  const char* path = std::getenv("PATH");
  setenv("PATH", (std::string(path ? path : "/usr/bin:/bin") + ":/usr/sbin:/sbin").c_str(), 1);
  setenv("TUTTI_TIMEOUT_MS", "30000", 1);
  setenv("TUTTI_SETUP_TIMEOUT_MS", "30000", 1);
  // Open MPI asks root twice.
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
}

}  // namespace

std::string rankPath, startRanksPath, clusterScripts;

/// The programs are given as arguments. Everything runs below a keeper (kept.h), and without the
/// variables of a launcher that may have started the test itself.
const tests::Arguments commandLine{{"TUTTI", &tuttiPath},
                                   {"LAUNCHED_RANK", &rankPath},
                                   {"START_RANKS_SCRIPT", &startRanksPath},
                                   {"CLUSTER_SCRIPTS", &clusterScripts}};
const tests::Runner runner([] {
  prepareEnvironment();
  return runKept([] { return RUN_ALL_TESTS(); });
});

std::string find(const std::string& program) {
  std::istringstream folders(std::getenv("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const std::string path = folder + "/" + program; access(path.c_str(), X_OK) == 0)
      return path;
  return {};
}

void writeScript(const std::filesystem::path& path, const std::string& commands) {
  tests::setContents(path, "#!/bin/sh\n" + commands);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

std::string pathBehind(const std::filesystem::path& folder) {
  return "PATH=" + folder.string() + ":" + std::getenv("PATH");
}

Result run(const Words& words) { return Command(words).wait(); }

size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

std::string newWord() {
  static std::mt19937_64 random(std::random_device{}());
  return std::to_string(random());
}

void runsPerf(const Launcher& launcher, int ranks) {
  const Result result =
      run(launcher.command(ranks, {tuttiPath, "perf", "all_reduce", "-b", "8", "-e", "64K", "-f",
                                   "16", "--iters", "3", "-w", "1"}));
  EXPECT_EQ(result.exitCode, 0) << result.out << result.err;
  EXPECT_EQ(occurrences(result.out, "# Out of bounds values : 0 OK"), 1u) << result.out;
  EXPECT_EQ(occurrences(result.out, "# all_reduce: " + std::to_string(ranks) + " ranks, "), 1u)
      << result.out;
}

void runsNcclPerf(const Launcher& launcher) {
  for (const std::string& program : launcher::ncclPerfPrograms) {
    const std::string path = launcher::besideTutti(program);
    const Result result = run(launcher.command(
        2, {path, "-b", "8", "-e", "4K", "-f", "16", "-n", "3", "-w", "1", "-g", "2"}));
    EXPECT_EQ(result.exitCode, 0) << program << result.out << result.err;
    EXPECT_EQ(occurrences(result.out, "# Out of bounds values : 0 OK"), 1u)
        << program << result.out;
    EXPECT_EQ(occurrences(result.out, ": rank 0 of 4\n"), 1u) << program << result.out;
  }
}

void expectMet(const Result& result, const std::string& launcher, int ranks) {
  EXPECT_EQ(result.exitCode, 0) << result.out << result.err;
  for (int rank = 0; rank < ranks; ++rank)
    EXPECT_EQ(occurrences(result.out, launcher + ": rank " + std::to_string(rank) + " of " +
                                          std::to_string(ranks) + "\n"),
              1u)
        << result.out << result.err;
}

void twoJobsStayApart(const Launcher& launcher) {
  Command first(launcher.command(3, {rankPath, "meet", newWord(), "0"}));
  Command second(launcher.command(3, {rankPath, "meet", newWord(), "1"}));
  expectMet(first.wait(), launcher.name, 3);
  expectMet(second.wait(), launcher.name, 3);
}

void waitsForALateRank(const Launcher& launcher, int late) {
  expectMet(run(launcher.command(3, {rankPath, "meet", newWord(), std::to_string(late)})),
            launcher.name, 3);
}

void failsWithARank(const Launcher& launcher, const std::string& how) {
  const TemporaryFolder folder;
  const Result result = run(launcher.command(3, {rankPath, "lose", how, folder.path().string()}));
  EXPECT_NE(result.exitCode, 0) << result.out << result.err;
  if (how == "exit") {
    EXPECT_EQ(result.exitCode, 3) << result.out << result.err;
  }
}

void survivorsNameTheLostRank(const Launcher& launcher, const std::string& how) {
  const TemporaryFolder folder;
  const Result result =
      run(launcher.command(3, {"setsid", "--wait", rankPath, "lose", how, folder.path().string()}));
  EXPECT_NE(result.exitCode, 0) << result.out << result.err;
  for (const char* survivor : {"0", "2"}) {
    ASSERT_TRUE(
        eventually([&] { return !folder.read(survivor).empty(); }, std::chrono::seconds(40)))
        << survivor << result.out << result.err;
    const std::string told = folder.read(survivor);
    EXPECT_TRUE(told.starts_with("peer lost: ") && contains(told, "rank 1 (pid ")) << told;
  }
}

}  // namespace tutti::launchers
