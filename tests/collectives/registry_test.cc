#include <gtest/gtest.h>

#include <tutti/error.h>
#include "collectives/ring.h"

namespace tutti::collectives {
namespace {

TEST(Registry, HasEveryAlgorithmOnce) {
  ASSERT_EQ(registry().algorithms().size(), static_cast<size_t>(plan::kAlgorithmCount));
  for (int i = 0; i < plan::kAlgorithmCount; ++i) {
    const auto algorithm = static_cast<Algorithm>(i);
    EXPECT_EQ(registry().find(algorithm).algorithm, algorithm);
  }
}

TEST(Registry, RefusesABrokenPlanAndNamesTheStep) {
  AlgorithmInfo broken = ring();
  broken.build = [good = broken.build](const PlanSpec& spec, int rank) {
    Program program = good(spec, rank);
    if (spec.collective == Collective::AllReduce && spec.ranks == 5 && rank == 3)
      program.lanes[0].steps[2].sources[1].chunk = 0;  // adds another division of the input
    return program;
  };
  Registry made;
  try {
    made.add(std::move(broken));
    FAIL() << "a broken plan was registered";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Internal);
    const std::string text = error.what();
    EXPECT_NE(text.find("all_reduce ring simple, 5 ranks"), std::string::npos) << text;
    EXPECT_NE(text.find("rank 3, lane 0, step 2"), std::string::npos) << text;
  }
  EXPECT_TRUE(made.algorithms().empty());
}

class RegistryInUse : public testing::TestWithParam<int> {};

TEST_P(RegistryInUse, ProvesAPlanWhenItIsFirstBuilt) {
  const int ranks = GetParam();
  static int builds = 0;
  AlgorithmInfo info = ring();
  info.build = [good = info.build, ranks](const PlanSpec& spec, int rank) {
    Program program = good(spec, rank);
    ++builds;
    if (spec.ranks == ranks && spec.root == 7 && rank == 3)
      program.lanes[0].steps[0].targets.pop_back();  // the chain ends here
    return program;
  };
  Registry made;
  made.add(info);
  builds = 0;
  const auto spec = [&](int size, int root) {
    return *info.spec({Collective::Broadcast, Protocol::Simple, size, root, 1});
  };
  made.build(spec(ranks, 6), 0);
  EXPECT_EQ(builds, ranks + 1);
  made.build(spec(ranks, 6), 1);
  EXPECT_EQ(builds, ranks + 2) << "proved again";
  for (int again = 0; again < 2; ++again) try {
      made.build(spec(ranks, 7), 0);
      ADD_FAILURE() << "a broken plan was built";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Internal);
      EXPECT_NE(std::string(error.what()).find(std::to_string(ranks) + " ranks, root 7"),
                std::string::npos);
      EXPECT_NE(std::string(error.what()).find("rank 4, lane 0, step 0"), std::string::npos)
          << error.what();
    }
  builds = 0;
  made.build(spec(kRanksWithRootProvedByTests, 0), 0);
  made.build(spec(kRanksProvedInUse + 1, 0), 0);
  EXPECT_EQ(builds, 2) << "proved where it is not promised";
}

INSTANTIATE_TEST_SUITE_P(Registry, RegistryInUse,
                         testing::Values(kRanksWithRootProvedByTests + 1, kRanksProvedByTests + 2));

// Tests prove plans of one channel.
TEST(Registry, ProvesPlansOfSeveralChannelsWhenTheyAreFirstBuilt) {
  static int builds = 0;
  AlgorithmInfo info = ring();
  info.build = [good = info.build](const PlanSpec& spec, int rank) {
    ++builds;
    return good(spec, rank);
  };
  Registry made;
  made.add(info);
  for (const int channels : {1, 4}) {
    builds = 0;
    made.build(*info.spec({Collective::AllReduce, Protocol::Simple, 5, 0, channels}), 0);
    EXPECT_EQ(builds, channels == 1 ? 1 : 6);
  }
}

TEST(Registry, RefusesASpecThatLiesAboutItself) {
  const auto lie = [](auto change) {
    AlgorithmInfo info = ring();
    info.spec = [good = info.spec, change](const SpecRequest& request) {
      auto spec = good(request);
      if (spec && spec->ranks == 4) change(*spec);
      return spec;
    };
    Registry made;
    EXPECT_THROW(made.add(std::move(info)), Error);
  };
  lie([](PlanSpec& spec) { spec.canonicalOrder = !spec.canonicalOrder; });
  lie([](PlanSpec& spec) { spec.minSlots = 1; });
  lie([](PlanSpec& spec) { spec.messageChunks = 2; });
  lie([](PlanSpec& spec) { spec.scratchBlocks = 1; });
  lie([](PlanSpec& spec) { spec.mapped.in = true; });
  lie([](PlanSpec& spec) { spec.unevenSafe = !spec.unevenSafe; });
  lie([](PlanSpec& spec) { spec.root = 4; });
}

TEST(Registry, BuildsWhatWasChosen) {
  const PlanSpec spec =
      *registry().find(Algorithm::Ring).spec({Collective::AllReduce, Protocol::Simple, 4, 0, 1});
  EXPECT_EQ(build(spec, 2), ring().build(spec, 2));
  EXPECT_THROW(build(spec, 4), Error);
}

}  // namespace
}  // namespace tutti::collectives
