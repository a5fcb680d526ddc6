// Plans as JSON: every step, and the hosts of the ranks.

#include "src/tools/plan/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "collectives/algorithms.h"

namespace tutti::collectives {
namespace {

std::vector<Program> programsOf(const PlanSpec& spec) {
  std::vector<Program> programs;
  for (int rank = 0; rank < spec.ranks; ++rank) programs.push_back(build(spec, rank));
  return programs;
}

TEST(PlanJson, HasEveryStep) {
  const PlanSpec spec =
      *registry().find(Algorithm::Ring).spec({Collective::AllReduce, Protocol::Simple, 4, 0, 1});
  const std::vector<Program> programs = programsOf(spec);
  const auto json = nlohmann::json::parse(plan::toJson(spec, programs));
  EXPECT_EQ(json["spec"]["algorithm"], "ring");
  EXPECT_EQ(json["spec"]["hash"], spec.hash());
  ASSERT_EQ(json["programs"].size(), 4U);
  const auto& steps = json["programs"][2]["lanes"][0]["steps"];
  ASSERT_EQ(steps.size(), programs[2].lanes[0].steps.size());
  EXPECT_EQ(steps[3]["fold"], "listed");
  EXPECT_EQ(steps[3]["completes"], true);
  EXPECT_EQ(steps[3]["sources"][0]["kind"], "channel");
  EXPECT_EQ(steps[3]["sources"][0]["rank"], 1);
  EXPECT_EQ(steps[3]["targets"][0]["buffer"], "out");
}

TEST(PlanJson, HasTheHosts) {
  const PlanSpec spec =
      *registry()
           .find(Algorithm::Hierarchical)
           .spec({Collective::AllReduce, Protocol::Simple, 4, 0, 1, {0, 0, 0, 1}});
  const std::vector<Program> programs = programsOf(spec);
  const auto json = nlohmann::json::parse(plan::toJson(spec, programs));
  EXPECT_EQ(json["spec"]["hosts"], (std::vector<int>{0, 0, 0, 1}));
  // Rank 0 owns a piece: it gives the other host's and results when its lane of sums is through.
  const auto& give = json["programs"][0]["lanes"][1]["steps"];
  EXPECT_EQ(give[0]["after"][0]["lane"], 0);
  EXPECT_EQ(give[0]["after"][0]["step"], json["programs"][0]["lanes"][0]["steps"].size() - 1);
}

}  // namespace
}  // namespace tutti::collectives
