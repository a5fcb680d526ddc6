// The real mpirun of Open MPI and mpiexec of MPICH.
// Arguments: the executables of tutti and of launched_rank.cc, start_ranks.sh, and the folder
// docs/examples/clusters.

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/launchers/free_port.h"
#include "tests/launchers/launcher_checks.h"

namespace tutti::launchers {
namespace {

using launcher::TemporaryFolder;

struct Mpi {
  const char* name;
  Words programs;  ///< the first that exists is taken
  const char* versionHas;
  Words options;
  bool sharesFolder;  ///< jobs of one user have one folder, which two that start together both make
  const char *script, *starter, *hosts;  ///< of docs/examples/clusters: what it calls, and its file
  Words agent;                           ///< variables that name another ssh, with {} for it
};
void PrintTo(const Mpi& mpi, std::ostream* out) { *out << mpi.name; }

class MpiLauncher : public testing::TestWithParam<Mpi> {
 protected:
  void SetUp() override {
    const Mpi& mpi = GetParam();
    for (const std::string& program : mpi.programs)
      if (!find(program).empty() && contains(run({program, "--version"}).out, mpi.versionHas)) {
        program_ = program;
        break;
      }
    if (program_.empty()) GTEST_SKIP() << mpi.name << " is not installed: no " << mpi.programs[0];
  }
  Launcher launcher() const {
    return {.name = GetParam().name, .command = [this](int ranks, const Words& program) {
              Words words{program_};
              words.insert(words.end(), GetParam().options.begin(), GetParam().options.end());
              if (GetParam().sharesFolder)
                words.insert(words.end(), {"--mca", "orte_tmpdir_base",
                                           std::getenv("TMPDIR") + ("/" + newWord())});
              words.insert(words.end(), {"-n", std::to_string(ranks)});
              words.insert(words.end(), program.begin(), program.end());
              return words;
            }};
  }

  std::string program_;
};

INSTANTIATE_TEST_SUITE_P(All, MpiLauncher,
                         testing::Values(Mpi{"Open MPI",
                                             {"mpirun.openmpi", "mpirun"},
                                             "Open MPI",
                                             {"--oversubscribe"},
                                             true,
                                             "openmpi.sh",
                                             "mpirun",
                                             "# hosts\n\nlocalhost slots=2\nother slots=2\n",
                                             {"OMPI_MCA_plm_rsh_agent={}"}},
                                         Mpi{"MPICH",
                                             {"mpiexec.mpich", "mpiexec.hydra", "mpiexec"},
                                             "HYDRA",
                                             {},
                                             false,
                                             "mpich.sh",
                                             "mpiexec",
                                             "# hosts\n\nlocalhost:2\nother:2\n",
                                             {"HYDRA_LAUNCHER=ssh", "HYDRA_LAUNCHER_EXEC={}"}}),
                         [](const auto& suite) {
                           return std::string(suite.index == 0 ? "OpenMpi" : "Mpich");
                         });

TEST_P(MpiLauncher, RunsPerf) {
  runsPerf(launcher(), 1);
  runsPerf(launcher(), 3);
}

TEST_P(MpiLauncher, RunsNcclTestsPrograms) { runsNcclPerf(launcher()); }

TEST_P(MpiLauncher, RunsMoreRanksThanCores) { runsPerf(launcher(), 8); }

TEST_P(MpiLauncher, FailsWithARankThatExits) { failsWithARank(launcher(), "exit"); }
TEST_P(MpiLauncher, FailsWithARankThatIsKilled) { failsWithARank(launcher(), "kill"); }
TEST_P(MpiLauncher, SurvivorsNameARankThatExits) { survivorsNameTheLostRank(launcher(), "exit"); }
TEST_P(MpiLauncher, SurvivorsNameARankThatIsKilled) {
  survivorsNameTheLostRank(launcher(), "kill");
}
TEST_P(MpiLauncher, KeepsTwoJobsApart) { twoJobsStayApart(launcher()); }
TEST_P(MpiLauncher, WaitsForRankZero) { waitsForALateRank(launcher(), 0); }
TEST_P(MpiLauncher, WaitsForAnotherRank) { waitsForALateRank(launcher(), 2); }

// A person in a shell of a Slurm job, or the daemons between mpirun and its ranks.
TEST_P(MpiLauncher, CountsInsideASlurmStep) {
  const Words step{"env",
                   "SLURM_JOB_ID=7",
                   "SLURM_STEP_ID=0",
                   "SLURM_PROCID=0",
                   "SLURM_STEP_NUM_TASKS=1",
                   "SLURM_STEP_NUM_NODES=1"};
  // Set for the ranks alone: mpirun itself would ask Slurm for its hosts.
  Words rank = step;
  rank.insert(rank.end(), {rankPath, "meet", newWord()});
  expectMet(run(launcher().command(3, rank)), GetParam().name, 3);
}

// The second host is this one by another name: in place of ssh is a script that notes what it is
// asked.
TEST_P(MpiLauncher, RunsItsScriptOnTwoHosts) {
  const Mpi& mpi = GetParam();
  const TemporaryFolder folder;
  const std::string agent = folder.path() / "agent", hosts = folder.path() / "hosts";
  writeScript(folder.path() / mpi.starter, "exec " + find(program_) + " \"$@\"\n");
  writeScript(agent,
              "echo \"$@\" >>" + agent + ".asked\n" +
                  "while [ \"${1#-}\" != \"$1\" ]; do shift; done\nshift\nexec sh -c \"$*\"\n");
  tests::setContents(hosts, mpi.hosts);

  Words words{"env", pathBehind(folder.path()), "MASTER_PORT=" + std::to_string(freePort()),
              "OMPI_MCA_orte_tmpdir_base=" + folder.path().string()};
  for (const std::string& variable : mpi.agent)
    words.push_back(variable.substr(0, variable.find("{}")) +
                    (contains(variable, "{}") ? agent : ""));
  words.insert(words.end(), {clusterScripts + "/" + mpi.script, hosts, "sh", "-c",
                             "echo $TUTTI_JOB_KEY >" + folder.path().string() + "/key; exec " +
                                 rankPath + " meet " + newWord()});
  expectMet(run(words), mpi.name, 4);
  const std::string asked = folder.read("agent.asked"), key = folder.read("key");
  EXPECT_TRUE(contains(asked, "other ")) << asked;
  ASSERT_EQ(key.size(), 65u) << key;
  EXPECT_FALSE(contains(asked, key.substr(0, 64))) << asked;
}

TEST_P(MpiLauncher, StartsATuttiRun) {
  const Result result = run(launcher().command(
      1, {tuttiPath, "run", "-n", "3", "--no-prefix", rankPath, "meet", newWord()}));
  expectMet(result, "tutti run", 3);
}

}  // namespace
}  // namespace tutti::launchers
