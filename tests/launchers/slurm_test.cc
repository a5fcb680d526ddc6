// Slurm, the real one, on this machine (slurm_cluster.h).
// Arguments: the executables of tutti and of launched_rank.cc, start_ranks.sh, and the folder
// docs/examples/clusters.

#include <gtest/gtest.h>

#include <optional>

#include "tests/launchers/launcher_checks.h"
#include "tests/launchers/slurm_cluster.h"

namespace tutti::launchers {
namespace {

using launcher::eventually;
using launcher::TemporaryFolder;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class Slurm : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (missingSlurmProgram().empty()) cluster.emplace();
  }
  static void TearDownTestSuite() { cluster.reset(); }
  void SetUp() override {
    if (!cluster) GTEST_SKIP() << "Slurm is not installed: no " << missingSlurmProgram();
    ASSERT_TRUE(cluster->ready()) << cluster->log();
  }

  static Launcher srun(const Words& options = {}) {
    return {.name = "Slurm", .command = [options](int ranks, const Words& program) {
              return Words{"srun", "--quiet", "-n", std::to_string(ranks)} + options + program;
            }};
  }
  static Words shell(const std::string& script) { return {"sh", "-c", script}; }
  static std::optional<SlurmCluster> cluster;
};
std::optional<SlurmCluster> Slurm::cluster;

TEST_F(Slurm, RunsPerf) {
  runsPerf(srun(), 1);
  runsPerf(srun(), 3);
}
TEST_F(Slurm, RunsNcclTestsPrograms) { runsNcclPerf(srun()); }
TEST_F(Slurm, FailsWithARankThatExits) { failsWithARank(srun(), "exit"); }
TEST_F(Slurm, FailsWithARankThatIsKilled) { failsWithARank(srun(), "kill"); }
TEST_F(Slurm, SurvivorsNameARankThatExits) { survivorsNameTheLostRank(srun(), "exit"); }
TEST_F(Slurm, SurvivorsNameARankThatIsKilled) { survivorsNameTheLostRank(srun(), "kill"); }
TEST_F(Slurm, KeepsTwoJobsApart) { twoJobsStayApart(srun()); }
TEST_F(Slurm, WaitsForRankZero) { waitsForALateRank(srun(), 0); }
TEST_F(Slurm, WaitsForAnotherRank) { waitsForALateRank(srun(), 2); }

TEST_F(Slurm, KeepsTwoStepsOfOneJobApart) {
  const std::string step = "srun --quiet --overlap -n 3 " + rankPath + " meet ";
  const Result result =
      run(Words{"salloc", "--quiet", "-n", "6"} +
          shell(step + newWord() + " 0 >$TMPDIR/step & first=$!; " + step + newWord() +
                " 1 && wait $first && echo both && cat $TMPDIR/step"));
  const size_t both = result.out.find("both\n");
  ASSERT_NE(both, std::string::npos) << result.out << result.err;
  expectMet({result.exitCode, result.out.substr(0, both), result.err}, "Slurm", 3);
  expectMet({result.exitCode, result.out.substr(both), result.err}, "Slurm", 3);
}

// Their variables come beside Slurm's own.
TEST_F(Slurm, CountsBesideItsPmi) {
  const std::string kinds = run({"srun", "--mpi=list"}).out + run({"srun", "--mpi=list"}).err;
  int tried = 0;
  for (const char* kind : {"pmi2", "pmix"}) {
    // Slurm lists PMIx also where it does not find libpmix.so.
    if (!contains(kinds, kind) ||
        run({"srun", "--quiet", std::string("--mpi=") + kind, "true"}).exitCode != 0)
      continue;
    ++tried;
    waitsForALateRank(srun({std::string("--mpi=") + kind}), 1);
  }
  if (tried == 0) GTEST_SKIP() << "this Slurm can neither pmi2 nor pmix";
}

TEST_F(Slurm, IsNoLauncherOfABatchScript) {
  const TemporaryFolder folder;
  const Result result =
      run({"sbatch", "-n", "3", "-o", folder.path().string() + "/out", "--wrap",
           rankPath + " meet 1; srun --quiet " + rankPath + " meet 2; " + tuttiPath +
               " run -n 2 --no-prefix " + rankPath + " meet 3; echo end of the script"});
  ASSERT_EQ(result.exitCode, 0) << result.err;
  // (sbatch --wait looks for the end only every few seconds.)
  EXPECT_TRUE(eventually([&] { return contains(folder.read("out"), "end of the script"); },
                         std::chrono::seconds(60)));
  const std::string out = folder.read("out");
  EXPECT_TRUE(contains(out, "nobody: rank 0 of 1\n")) << out;
  expectMet({0, out, {}}, "Slurm", 3);
  expectMet({0, out, {}}, "tutti run", 2);
}

/// Submits train.sbatch for two nodes with a shell script as its program; says the job's number.
/// Its time limit is so far that the script is not told of it.
std::string submit(const TemporaryFolder& folder, const std::string& program) {
  const Result result =
      run({"sbatch", "--parsable", "--partition=two", "--time=9", "--ntasks-per-node=2", "-o",
           folder.path().string() + "/out", clusterScripts + "/train.sbatch", "sh", "-c", program});
  EXPECT_EQ(result.exitCode, 0) << result.err;
  return result.out.substr(0, result.out.find('\n'));
}

/// Waits until the job's output has a text so many times.
bool writes(const TemporaryFolder& folder, const std::string& text, size_t times) {
  return eventually([&] { return occurrences(folder.read("out"), text) >= times; },
                    std::chrono::seconds(60));
}

TEST_F(Slurm, RunsTheBatchScriptOnTwoNodes) {
  const TemporaryFolder folder;
  const std::string word = newWord();
  submit(folder, "echo on $SLURMD_NODENAME; exec " + rankPath + " meet " + word);
  EXPECT_TRUE(writes(folder, "of 4\n", 4));
  const std::string out = folder.read("out");
  expectMet({0, out, {}}, "Slurm", 4);
  EXPECT_EQ(occurrences(out, "on 127.0.0.1\n"), 2u) << out;
  EXPECT_EQ(occurrences(out, "on 127.0.0.2\n"), 2u) << out;
}

TEST_F(Slurm, BatchScriptStartsAgainAfterALostRank) {
  const TemporaryFolder folder;
  submit(folder, "[ $SLURM_STEP_ID != 0 ] || [ $SLURM_PROCID != 1 ] || exit 3; exec " + rankPath +
                     " meet " + newWord());
  EXPECT_TRUE(writes(folder, "of 4\n", 4));
  const std::string out = folder.read("out");
  expectMet({0, out, {}}, "Slurm", 4);
  EXPECT_TRUE(contains(out, "attempt 2, requeued 0 times\n")) << out;
  EXPECT_FALSE(contains(out, "attempt 3")) << out;
}

TEST_F(Slurm, BatchScriptGivesUpAfterThreeAttempts) {
  const TemporaryFolder folder;
  const std::string job = submit(folder, "echo here; exit 3");
  const auto state = [&] { return run({"scontrol", "--oneliner", "show", "job", job}).out; };
  EXPECT_TRUE(
      eventually([&] { return contains(state(), "JobState=FAILED"); }, std::chrono::seconds(60)))
      << state();
  EXPECT_TRUE(contains(state(), "ExitCode=3:0")) << state();
  EXPECT_TRUE(contains(folder.read("out"), "attempt 3,"));
}

TEST_F(Slurm, RequeuesTheBatchScriptBeforeItsTimeLimit) {
  const TemporaryFolder folder;
  const std::string job = submit(folder,
                                 "trap 'echo saved; exit 0' USR1; echo ready; n=0; "
                                 "while [ $n -lt 600 ]; do sleep 0.1; n=$((n + 1)); done; exit 5");
  ASSERT_TRUE(writes(folder, "ready\n", 4)) << folder.read("out");
  EXPECT_EQ(run({"scancel", "--batch", "--signal=USR1", job}).exitCode, 0);
  const auto state = [&] { return run({"scontrol", "--oneliner", "show", "job", job}).out; };
  EXPECT_TRUE(
      eventually([&] { return contains(state(), " Restarts=1 "); }, std::chrono::seconds(60)))
      << state() << folder.read("out");
  EXPECT_EQ(occurrences(folder.read("out"), "saved\n"), 4u) << folder.read("out");
  EXPECT_EQ(run({"scancel", job}).exitCode, 0);  // it would start again in two minutes
}

TEST_F(Slurm, StartsATuttiRunInsideAStepAndAnAllocation) {
  const Words tutti{tuttiPath, "run", "-n", "3", "--no-prefix", rankPath, "meet", newWord()};
  expectMet(run(srun().command(1, tutti)), "tutti run", 3);
  expectMet(run(Words{"salloc", "--quiet", "-n", "3"} + tutti), "tutti run", 3);
}

// Both start their ranks below one task of a step of their own, whose variables the ranks have too.
TEST_F(Slurm, IsNotAskedForTheRanksOfAnMpiInside) {
  const Words allocation{"salloc", "--quiet", "-n", "3"}, meet{rankPath, "meet", newWord()};
  int tried = 0;
  for (const auto& [name, program] :
       {std::pair("Open MPI", "mpirun.openmpi"), std::pair("MPICH", "mpiexec.mpich")}) {
    if (find(program).empty()) continue;
    ++tried;
    expectMet(run(allocation + Words{program, "-n", "3"} + meet), name, 3);
  }
  if (tried == 0) GTEST_SKIP() << "there is neither mpirun.openmpi nor mpiexec.mpich";
}

}  // namespace
}  // namespace tutti::launchers
