// Who starts the ranks: a launcher's variables against --ranks.

#include "parallel/samples/ranks.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>
#include <string>

#include <tutti/error.h>
#include <tutti/launch.h>

namespace tutti::parallel {
namespace {

using Variables = std::map<std::string, std::string>;

/// No launcher's variables but the given ones, for one scope of this process.
class Environment {
 public:
  explicit Environment(const Variables& variables) {
    for (const char* name :
         {"TUTTI_RANK", "TUTTI_WORLD_SIZE", "RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS",
          "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
          "PMI_RANK", "PMI_SIZE", "JOB_COMPLETION_INDEX"})
      unsetenv(name);
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    names_ = variables;
  }
  ~Environment() {
    for (const auto& [name, value] : names_) unsetenv(name.c_str());
  }

 private:
  Variables names_;
};

void expectPlan(const Variables& variables, int asked, int ranks, bool launch) {
  const Environment environment(variables);
  const RankPlan plan = planRanks(asked);
  EXPECT_EQ(plan.ranks, ranks);
  EXPECT_EQ(plan.launch, launch);
}

void expectRefused(const Variables& variables, int asked, const std::string& named,
                   const std::string& flags = "") {
  const Environment environment(variables);
  try {
    const RankPlan plan = planRanks(asked, flags);
    ADD_FAILURE() << plan.ranks << " ranks, not: " << named;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
  }
}

TEST(LaunchedRank, SaysWhatTheLauncherSays) {
  {
    const Environment environment({});
    EXPECT_FALSE(launchedRank());
  }
  const Environment environment({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "3"}});
  const auto given = launchedRank();
  ASSERT_TRUE(given);
  EXPECT_EQ(given->launcher, "Open MPI");
  EXPECT_EQ(given->rank, 2);
  EXPECT_EQ(given->size, 3);
}

TEST(PlanRanks, WithoutALauncherTheFlagDecides) {
  expectPlan({}, 0, 1, false);
  expectPlan({}, 1, 1, false);
  expectPlan({}, 4, 4, true);
}

// A size without a rank is no launcher: an allocation's shell, or a leftover variable.
TEST(PlanRanks, ASizeAloneStartsNothing) {
  for (const char* name :
       {"WORLD_SIZE", "SLURM_NTASKS", "TUTTI_WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE"}) {
    expectPlan({{name, "4"}}, 4, 4, true);
    expectPlan({{name, "4"}}, 2, 2, true);
    expectPlan({{name, "4"}}, 0, 1, false);
    expectPlan({{name, "junk"}}, 2, 2, true);
  }
}

TEST(PlanRanks, ABatchScriptMayLaunch) {
  expectPlan({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}, 4, 4, true);
  expectPlan({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "0"}}, 4, 4, false);
}

TEST(PlanRanks, UnderALauncherThisIsOneOfItsRanks) {
  expectPlan({{"RANK", "3"}, {"WORLD_SIZE", "4"}}, 0, 4, false);
  expectPlan({{"RANK", "3"}, {"WORLD_SIZE", "4"}}, 4, 4, false);
  expectRefused({{"RANK", "3"}, {"WORLD_SIZE", "4"}}, 2, "torchrun");
  expectRefused({{"RANK", "3"}, {"WORLD_SIZE", "4"}}, 1, "--ranks 1");
  expectRefused({{"RANK", "3"}, {"WORLD_SIZE", "4"}}, 2,
                "--fsdp 2 makes 2 ranks, and the launcher (torchrun) started 4", "--fsdp 2");
  expectRefused({{"RANK", "0"}, {"WORLD_SIZE", "junk"}}, 4, "WORLD_SIZE=junk");
  expectRefused({{"RANK", "0"}}, 4, "WORLD_SIZE");
  // Its own launcher's variables come first, as for Communicator::create().
  expectPlan({{"TUTTI_RANK", "1"}, {"TUTTI_WORLD_SIZE", "2"}, {"RANK", "0"}, {"WORLD_SIZE", "9"}},
             2, 2, false);
}

TEST(PlanRanks, AJobOfOneMayStartMore) {
  expectPlan({{"RANK", "0"}, {"WORLD_SIZE", "1"}}, 4, 4, true);
  expectPlan({{"RANK", "0"}, {"WORLD_SIZE", "1"}}, 0, 1, false);
}

}  // namespace
}  // namespace tutti::parallel
