// `tutti perf` over several hosts, as a launcher starts it there. The first argument is the tutti
// command.

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <tutti/communicator.h>

#include "src/base/check.h"
#include "tests/support/network_hosts.h"
#include "tests/support/test_main.h"

namespace tutti::tests {
namespace {

std::string tuttiPath;
const tests::Arguments commandLine{{"TUTTI", &tuttiPath}};

using Variables = std::map<std::string, std::string>;

/// Tutti's own.
Variables tuttisVariables(const NetworkHosts& hosts, int rank, int ranks) {
  return {{"TUTTI_RANK", std::to_string(rank)},
          {"TUTTI_WORLD_SIZE", std::to_string(ranks)},
          {"TUTTI_ADDRESS", hosts.address(0) + ":29520"},
          {"TUTTI_JOB_KEY", "a key of enough letters"}};
}

/// As torchrun sets them for one process on each host, of which the first has its store.
Variables torchrunsVariables(const NetworkHosts& hosts, int rank, int ranks) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(ranks)},
          {"LOCAL_RANK", "0"},
          {"LOCAL_WORLD_SIZE", "1"},
          {"GROUP_RANK", std::to_string(rank)},
          {"MASTER_ADDR", hosts.address(0)},
          {"MASTER_PORT", "29530"},
          {"TORCHELASTIC_RUN_ID", "a job"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
          {"TUTTI_JOB_KEY", "a key of enough letters"}};
}

/// What rank 0 has printed; the ranks are on hosts of their own.
std::string perfOnHosts(const NetworkHosts& hosts, int ranks, std::vector<std::string> words,
                        Variables (*variablesOf)(const NetworkHosts&, int, int) = tuttisVariables,
                        const std::string& program = tuttiPath) {
  const auto file = std::filesystem::temp_directory_path() /
                    base::message("tutti_perf_hosts_", ::getpid(), ".txt");
  ChildProcesses processes;
  for (int rank = 0; rank < ranks; ++rank)
    processes.start([&] {
      hosts.enter(rank);
      const int out =
          ::open(rank == 0 ? file.c_str() : "/dev/null", O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(out, 1);
      ::dup2(out, 2);
      for (const auto& [name, value] : variablesOf(hosts, rank, ranks))
        ::setenv(name.c_str(), value.c_str(), 1);
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      ::execv(program.c_str(), argv.data());
      return 127;
    });
  std::string problems;
  for (int rank = 0; rank < ranks; ++rank)
    if (const int code = processes.wait(rank, std::chrono::seconds(60)); code != 0)
      problems += base::message("rank ", rank, " ended with ", code, "\n");
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  std::filesystem::remove(file);
  return problems + text.str();
}

TEST(PerfHosts, EverythingIsRightOnFourHosts) {
  if (const auto reason = NetworkHosts::unavailable()) GTEST_SKIP() << *reason;
  const NetworkHosts hosts(4);
  for (const char* what : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
                           "gather", "scatter", "alltoall", "scan", "barrier", "sendrecv",
                           "alltoallv", "hypercube", "all_gatherv", "reduce_scatterv"}) {
    const std::string out = perfOnHosts(
        hosts, 4, {"tutti", "perf", what, "-b", "8", "-e", "2M", "-f", "8", "--iters", "5"});
    EXPECT_NE(out.find("# Out of bounds values : 0 OK"), std::string::npos) << what << ":\n" << out;
    EXPECT_EQ(out.find("ended with"), std::string::npos) << what << ":\n" << out;
    EXPECT_NE(out.find("on host n3"), std::string::npos) << what << ":\n" << out;
  }
}

// Two ranks in each of two processes, as `torchrun --nnodes 2` starts them.
TEST(PerfHosts, ProgramsWithNcclTestsNamesRunUnderALauncher) {
  if (const auto reason = NetworkHosts::unavailable()) GTEST_SKIP() << *reason;
  const NetworkHosts hosts(2);
  const std::string program = std::filesystem::path(tuttiPath).parent_path() / "all_reduce_perf";
  const std::string out = perfOnHosts(
      hosts, 2, {program, "-b", "8", "-e", "2M", "-f", "8", "-n", "5", "-w", "1", "-g", "2"},
      torchrunsVariables, program);
  EXPECT_EQ(out.find("ended with"), std::string::npos) << out;
  EXPECT_NE(out.find("# Out of bounds values : 0 OK"), std::string::npos) << out;
  for (const char* part : {"rank 0 of 4", "on host n0", "on host n1", "\n     2097152 "})
    EXPECT_NE(out.find(part), std::string::npos) << part << "\n" << out;
}

}  // namespace
}  // namespace tutti::tests
