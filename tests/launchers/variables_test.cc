// Launchers that a test cannot have, by the variables that they document, with start_ranks.sh in
// their place; and the real torchrun where there is one.
// Arguments: the executables of tutti and of launched_rank.cc, start_ranks.sh, and the folder
// docs/examples/clusters.

#include <gtest/gtest.h>

#include "tests/launchers/free_port.h"
#include "tests/launchers/launcher_checks.h"

namespace tutti::launchers {
namespace {

const Words kKeyed{"TUTTI_JOB_KEY=a-secret-of-the-whole-job"};

/// `variables` of one job of so many ranks that meet at a port.
struct Documented {
  const char* name;
  std::function<Words(const std::string& ranks, const std::string& port)> variables;
};
void PrintTo(const Documented& launcher, std::ostream* out) { *out << launcher.name; }

class DocumentedLauncher : public testing::TestWithParam<Documented> {
 protected:
  static Launcher launcher() {
    return {.name = GetParam().name, .command = [](int ranks, const Words& program) {
              const std::string count = std::to_string(ranks);
              Words words{startRanksPath, count};
              const Words variables = GetParam().variables(count, std::to_string(freePort()));
              words.insert(words.end(), variables.begin(), variables.end());
              words.push_back("--");
              words.insert(words.end(), program.begin(), program.end());
              return words;
            }};
  }
};

// With torchrun's own store at MASTER_PORT, so that a job with a key takes the port after it.
Words torchrun(const std::string& ranks, const std::string& port) {
  return {"RANK={}",
          "LOCAL_RANK={}",
          "GROUP_RANK=0",
          "ROLE_RANK={}",
          "ROLE_NAME=default",
          "WORLD_SIZE=" + ranks,
          "LOCAL_WORLD_SIZE=" + ranks,
          "GROUP_WORLD_SIZE=1",
          "ROLE_WORLD_SIZE=" + ranks,
          "MASTER_ADDR=localhost",
          "MASTER_PORT=" + port,
          "TORCHELASTIC_RUN_ID=6f2c1ab0",
          "TORCHELASTIC_RESTART_COUNT=0",
          "TORCHELASTIC_MAX_RESTARTS=3",
          "TORCHELASTIC_USE_AGENT_STORE=True"};
}
Words keyedTorchrun(const std::string& ranks, const std::string& port) {
  Words all = torchrun(ranks, port);
  all.insert(all.end(), kKeyed.begin(), kKeyed.end());
  return all;
}
// Of an indexed Job Kubernetes says the index; the manifest says the rest.
Words indexedJob(const std::string& ranks, const std::string& port) {
  return {"JOB_COMPLETION_INDEX={}", "TUTTI_WORLD_SIZE=" + ranks, "MASTER_ADDR=127.0.0.1",
          "MASTER_PORT=" + port, kKeyed[0]};
}
Words leaderWorkerSet(const std::string& ranks, const std::string& port) {
  return {"LWS_WORKER_INDEX={}", "LWS_GROUP_SIZE=" + ranks, "LWS_LEADER_ADDRESS=127.0.0.1",
          "MASTER_PORT=" + port, kKeyed[0]};
}
Words pmix(const std::string& ranks, const std::string& port) {
  return {"PMIX_RANK={}", "PMIX_NAMESPACE=prterun-n1-4711@1", "TUTTI_WORLD_SIZE=" + ranks,
          "TUTTI_ADDRESS=127.0.0.1:" + port, kKeyed[0]};
}
Words pmi(const std::string& ranks, const std::string& port) {
  return {"PMI_RANK={}", "PMI_SIZE=" + ranks, "TUTTI_ADDRESS=127.0.0.1:" + port, kKeyed[0]};
}

INSTANTIATE_TEST_SUITE_P(All, DocumentedLauncher,
                         testing::Values(Documented{"torchrun", torchrun},
                                         Documented{"torchrun", keyedTorchrun},
                                         Documented{"Kubernetes", indexedJob},
                                         Documented{"LeaderWorkerSet", leaderWorkerSet},
                                         Documented{"PMI", pmi}, Documented{"PMIx", pmix}));

TEST_P(DocumentedLauncher, RunsPerf) {
  runsPerf(launcher(), 1);
  runsPerf(launcher(), 3);
}
TEST_P(DocumentedLauncher, SurvivorsNameARankThatExits) {
  survivorsNameTheLostRank(launcher(), "exit");
}
TEST_P(DocumentedLauncher, SurvivorsNameARankThatIsKilled) {
  survivorsNameTheLostRank(launcher(), "kill");
}
TEST_P(DocumentedLauncher, KeepsTwoJobsApart) { twoJobsStayApart(launcher()); }
TEST_P(DocumentedLauncher, WaitsForRankZero) { waitsForALateRank(launcher(), 0); }
TEST_P(DocumentedLauncher, WaitsForAnotherRank) { waitsForALateRank(launcher(), 2); }

// What a batch script or a pod has around it, while the person uses tutti run.
TEST(TuttiRun, CountsWhateverIsAroundIt) {
  for (const Words& around :
       {Words{"SLURM_JOB_ID=7", "SLURM_NTASKS=4", "SLURM_PROCID=0"},
        Words{"SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=4"},
        torchrun("4", "1"), indexedJob("4", "1"), leaderWorkerSet("4", "1")}) {
    Words words{startRanksPath, "1"};
    words.insert(words.end(), around.begin(), around.end());
    words.insert(words.end(),
                 {"--", tuttiPath, "run", "-n", "3", "--no-prefix", rankPath, "meet", newWord()});
    expectMet(run(words), "tutti run", 3);
  }
}

TEST(Torchrun, RunsPerfAndKeepsTwoJobsApart) {
  if (find("torchrun").empty() || run({"torchrun", "--help"}).exitCode != 0)
    GTEST_SKIP() << "there is no torchrun that works, so no PyTorch";
  const Launcher torchrun{.name = "torchrun", .command = [](int ranks, const Words& program) {
                            Words words{"torchrun", "--standalone", "--no_python",
                                        "--nproc_per_node=" + std::to_string(ranks)};
                            words.insert(words.end(), program.begin(), program.end());
                            return words;
                          }};
  runsPerf(torchrun, 3);
  twoJobsStayApart(torchrun);
  survivorsNameTheLostRank(torchrun, "kill");
}

}  // namespace
}  // namespace tutti::launchers
