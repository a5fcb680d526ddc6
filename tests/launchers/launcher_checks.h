#pragma once

// What must hold under every launcher, checked with the real `tutti perf` and with
// launched_rank.cc.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/run_tutti.h"

namespace tutti::launchers {

using launcher::contains;
using launcher::Result;
using launcher::tuttiPath;
using Words = std::vector<std::string>;

/// The programs that the tests start, beside `tutti`; arguments of the test program.
extern std::string rankPath, startRanksPath;
/// The folder of the scripts that people copy, docs/examples/clusters.
extern std::string clusterScripts;

struct Launcher {
  std::string name;  ///< as launchedRank() says it
  /// The command that starts so many ranks of a program.
  std::function<Words(int ranks, const Words& program)> command;
};

/// The program's file as a shell would find it; empty when there is none.
std::string find(const std::string& program);

/// Writes a shell script that can be started.
void writeScript(const std::filesystem::path& path, const std::string& commands);
/// PATH with another folder before all others, as a word for `env`.
std::string pathBehind(const std::filesystem::path& folder);

/// Runs a command to its end.
Result run(const Words& words);
/// How often a text has a part.
size_t occurrences(const std::string& text, const std::string& part);
/// A word that no other job has.
std::string newWord();

/// `tutti perf all_reduce` on one world of so many ranks is right.
void runsPerf(const Launcher& launcher, int ranks);
/// The programs with nccl-tests' names are right on two processes, of two ranks each.
void runsNcclPerf(const Launcher& launcher);
/// `result` is of `launched_rank meet` on so many ranks, and they met.
void expectMet(const Result& result, const std::string& launcher, int ranks);
/// Two jobs that run at once do not meet.
void twoJobsStayApart(const Launcher& launcher);
/// `late` comes after the others.
void waitsForALateRank(const Launcher& launcher, int late);
/// Rank 1 ends as `how` says ("exit": with code 3, or "kill"): the launcher fails, soon.
void failsWithARank(const Launcher& launcher, const std::string& how);
/// The same with ranks that the launcher cannot end: each other one names rank 1.
void survivorsNameTheLostRank(const Launcher& launcher, const std::string& how);

}  // namespace tutti::launchers
