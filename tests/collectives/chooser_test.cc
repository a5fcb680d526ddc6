#include "collectives/chooser.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>

#include <tutti/error.h>
#include "src/base/check.h"
#include "tests/support/outcome.h"

namespace tutti::collectives {
namespace {

using plan::CollectiveRequest;
using topology::Topology;
using topology::Tuning;

Choice choose4(CollectiveRequest request) { return choose(request, {.ranks = 4, .cores = 4}, {}); }

TEST(Chooser, IsAPureFunction) {
  for (int c = 0; c < plan::kCollectiveCount; ++c)
    for (int ranks : {1, 2, 3, 5, 8})
      for (uint64_t count : {0ULL, 1ULL, 1000ULL, 1ULL << 20, 1ULL << 33}) {
        const CollectiveRequest request{.collective = static_cast<Collective>(c), .count = count};
        const Choice first = choose(request, {.ranks = ranks, .cores = 2}, {});
        const Choice second = choose(request, {.ranks = ranks, .cores = 2}, {});
        EXPECT_EQ(first.spec, second.spec);
        EXPECT_EQ(first.reason, second.reason);
        EXPECT_EQ(first.describe(), second.describe());
        for (size_t i = 1; i < first.candidates.size(); ++i)
          if (first.candidates[i].spec.protocol == first.candidates[i - 1].spec.protocol) {
            EXPECT_LE(first.candidates[i - 1].microseconds,
                      1.02 * first.candidates[i].microseconds);
          }
      }
}

TEST(Chooser, SaysWhy) {
  EXPECT_EQ(choose4({.count = 1}).reason,
            "all_reduce of 1 float32, sum: one_shot, predicted 0.43 us; next is two_shot, 0.87 us");
  EXPECT_EQ(choose4({.count = 1, .algorithm = "ring"}).reason,
            "all_reduce of 1 float32, sum, algorithm ring: ring, as asked");
  EXPECT_EQ(choose4({.count = 65536, .mappable = true, .algorithm = "mapped"}).mapped->algorithm,
            Algorithm::TwoShot);
  EXPECT_NE(choose4({.count = 65536, .mappable = true})
                .reason.find("; two_shot without staging where all buffers are mapped"),
            std::string::npos);
}

TEST(Chooser, SaysWhatIsTakenForEqual) {
  int said = 0, better = 0;
  for (const Collective c : {Collective::AllReduce, Collective::AllGather, Collective::Broadcast})
    for (int ranks = 2; ranks <= 8; ++ranks)
      for (uint64_t count = 1; count <= 1 << 22; count += count / 2 + 1) {
        const Choice choice =
            choose({.collective = c, .count = count}, {.ranks = ranks, .cores = 2}, {});
        const double best = choice.candidates[0].microseconds;
        const double next = choice.candidates[1].microseconds;
        const bool says = choice.reason.find("us, which is taken for equal") != std::string::npos;
        EXPECT_TRUE(says || next > best) << choice.describe();
        EXPECT_TRUE(!says || std::abs(next - best) < 0.02 * best) << choice.describe();
        said += says;
        better += next < best;
      }
  EXPECT_GE(said, 10);
  EXPECT_GE(better, 1);  // and yet the other one is taken
}

TEST(Chooser, SaysWhatTheTuningTablePrefers) {
  const CollectiveRequest request{.count = 1000, .mappable = true};
  const auto reason = [&](const std::vector<std::string>& names, bool windows = true) {
    Tuning tuning;
    for (const std::string& name : names)
      tuning.preferences.push_back({"all_reduce", 4, 1, 4096, name});
    CollectiveRequest asked = request;
    asked.mappable = windows;
    return choose(asked, {.ranks = 4, .cores = 4}, tuning).reason;
  };
  const std::string byTable = ", as the tuning table prefers";
  const auto says = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_FALSE(says(reason({}), byTable));
  const std::string tree = reason({"double_tree"});
  EXPECT_TRUE(says(tree, ": double_tree, predicted ") && says(tree, " us" + byTable + "; next is "))
      << tree;
  EXPECT_TRUE(reason({"mapped"}).ends_with(" where all buffers are mapped" + byTable));
  EXPECT_TRUE(reason({"staged"}).ends_with("; staged also where buffers are mapped" + byTable));
  EXPECT_EQ(reason({"mapped"}, false), reason({}, false));  // there is nothing to ask for
}

TEST(Chooser, DeterministicMeansTheCanonicalOrder) {
  for (Collective c :
       {Collective::AllReduce, Collective::ReduceScatter, Collective::Reduce, Collective::Scan})
    for (int ranks = 1; ranks <= 16; ++ranks)
      for (uint64_t count : {1ULL, 1ULL << 22}) {
        const Choice choice = choose({.collective = c,
                                      .count = count,
                                      .root = ranks - 1,
                                      .deterministic = true,
                                      .mappable = true},
                                     {.ranks = ranks, .cores = 2}, {});
        for (const Candidate& candidate : choice.candidates)
          EXPECT_TRUE(candidate.spec.canonicalOrder) << candidate.spec.describe();
        EXPECT_TRUE(!choice.mapped || choice.mapped->canonicalOrder);
      }
}

TEST(Chooser, ForcedAlgorithmsAreTakenOrRefused) {
  for (const char* name : {"ring", "double_tree", "recursive", "one_shot", "two_shot"})
    EXPECT_STREQ(plan::toString(choose4({.count = 1 << 20, .algorithm = name}).spec.algorithm),
                 name);
  const auto refusal = [](CollectiveRequest request) {
    try {
      choose4(request);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_EQ(
      refusal({.algorithm = "rings"}),
      "algorithm \"rings\" is not ring, double_tree, recursive, one_shot, two_shot, pairwise, "
      "hierarchical, mapped, attached or file; did you mean ring?");
  for (const char* name : {"ring/", "ring/0", "ring/-1", "ring/2x", "ring/2/2", "ring/99999999999"})
    EXPECT_EQ(refusal({.algorithm = name}),
              base::message("algorithm \"", name, "\": behind the slash is no number of channels"));
  EXPECT_EQ(refusal({.algorithm = "ring/2"}),  // on one host a rank's lanes would take turns
            "algorithm ring/2 does not exist for all_reduce on 4 ranks");
  EXPECT_EQ(choose4({.count = 1, .algorithm = "ring/1"}).spec.algorithm, Algorithm::Ring);
  EXPECT_EQ(refusal({.collective = Collective::AllGather, .algorithm = "double_tree"}),
            "algorithm double_tree does not exist for all_gather on 4 ranks");
  EXPECT_EQ(refusal({.algorithm = "hierarchical"}),
            "algorithm hierarchical does not exist for all_reduce on 4 ranks of one host");
  EXPECT_EQ(refusal({.deterministic = true, .algorithm = "ring"}),
            "algorithm ring does not exist for deterministic all_reduce on 4 ranks, or does not "
            "add in the canonical order");
}

TEST(Chooser, BarrierTakesWhatThereIs) {
  const auto barrier = [](const char* name) {
    return choose4({.collective = Collective::Barrier, .algorithm = name}).spec.algorithm;
  };
  EXPECT_EQ(barrier("recursive"), Algorithm::Recursive);
  EXPECT_EQ(barrier("ring"), barrier(""));
}

TEST(Chooser, OffersMappedFormsWhereThatPays) {
  const auto offered = [](CollectiveRequest request) {
    return choose4(request).mapped.has_value();
  };
  for (Collective c : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
                       Collective::Broadcast, Collective::Reduce, Collective::Gather,
                       Collective::Scatter, Collective::AllToAll, Collective::Scan}) {
    EXPECT_TRUE(offered({.collective = c, .count = 16384, .mappable = true}));
    EXPECT_FALSE(offered({.collective = c, .count = 2, .mappable = true}));
    EXPECT_TRUE(offered({.collective = c, .count = 1, .mappable = true, .algorithm = "mapped"}));
    EXPECT_FALSE(offered({.collective = c, .count = 16384}));
    EXPECT_FALSE(
        offered({.collective = c, .count = 16384, .mappable = true, .algorithm = "one_shot"}));
    EXPECT_FALSE(offered({.collective = c, .count = 1, .algorithm = "mapped"}));
  }
  EXPECT_FALSE(offered({.count = 16384, .op = ReduceOp::PreMulSum, .mappable = true}));
  EXPECT_FALSE(
      offered({.collective = Collective::Barrier, .mappable = true, .algorithm = "mapped"}));
  EXPECT_FALSE(choose({.count = 16384, .mappable = true}, {.ranks = 1, .cores = 2}, {}).mapped);
  // What ranks tell each other before they begin is a part of what a mapped form takes.
  Tuning tuning;
  for (const double entry : {0.0, 1e5}) {
    tuning.entryMicroseconds = entry;
    const Choice choice =
        choose({.count = 1 << 16, .mappable = true}, {.ranks = 4, .cores = 4}, tuning);
    EXPECT_EQ(choice.mapped.has_value(), entry == 0);
    EXPECT_EQ(choice.candidates.back().microseconds < choice.candidates.front().microseconds,
              entry == 0);
  }
}

TEST(Chooser, OffersAttachedFormsWhereRanksReadEachOther) {
  Topology topology{.ranks = 2, .cores = 2};
  Tuning tuning;
  const auto isOffered = [&](uint64_t count, const char* algorithm = "",
                             Collective collective = Collective::AllGather) {
    const Choice choice =
        choose({.collective = collective, .count = count, .mappable = true, .algorithm = algorithm},
               topology, tuning);
    EXPECT_TRUE(choice.mapped || !choice.attached);
    return choice.attached.has_value();
  };
  constexpr uint64_t kMany = 1 << 20;
  EXPECT_FALSE(isOffered(kMany));
  EXPECT_FALSE(isOffered(kMany, "attached"));
  topology.attached = true;
  EXPECT_TRUE(isOffered(kMany));
  EXPECT_FALSE(isOffered(16));
  EXPECT_TRUE(isOffered(16, "attached"));
  EXPECT_FALSE(isOffered(kMany, "ring"));
  EXPECT_FALSE(isOffered(kMany, "attached", Collective::Gather));
  tuning.preferences = {{"all_gather", 2, 1, 64, "attached"},
                        {"all_gather", 2, 1, 4 * kMany, "staged"}};
  EXPECT_TRUE(isOffered(16));
  EXPECT_FALSE(isOffered(kMany));
  tuning = {.attachGigabytesPerSecond = 1e-3};
  EXPECT_FALSE(isOffered(kMany));
  topology.hostOf = {0, 1};
  EXPECT_FALSE(isOffered(kMany, "attached"));
}

TEST(Chooser, TakesWhatTheTuningTablePrefers) {
  const Topology topology{.ranks = 4, .cores = 4};
  const CollectiveRequest request{.count = 1000, .mappable = true};
  const Choice free = choose(request, topology, {});
  ASSERT_NE(free.spec.algorithm, Algorithm::DoubleTree);
  Tuning tuning;
  tuning.preferences = {{"all_reduce", 4, 1, 4096, "double_tree"}};
  const Choice preferred = choose(request, topology, tuning);
  EXPECT_EQ(preferred.spec.algorithm, Algorithm::DoubleTree);
  EXPECT_EQ(preferred.candidates.size(), free.candidates.size());
  // Whether mapped buffers are asked for is a preference of its own.
  EXPECT_EQ(preferred.mapped, free.mapped);
  Tuning cheap = tuning;
  cheap.entryMicroseconds = cheap.stepMicroseconds = 0;
  EXPECT_TRUE(choose(request, topology, cheap).mapped);
  cheap.preferences.push_back({"all_reduce", 4, 1, 4096, "staged"});
  EXPECT_FALSE(choose(request, topology, cheap).mapped);
  EXPECT_EQ(choose(request, topology, cheap).spec.algorithm, Algorithm::DoubleTree);
  // It is about such calls alone.
  const auto unchanged = [&](CollectiveRequest other, const Topology& where) {
    EXPECT_EQ(choose(other, where, tuning).spec, choose(other, where, {}).spec);
  };
  unchanged({.count = 1025}, topology);
  unchanged({.count = 512}, topology);
  unchanged({.collective = Collective::Reduce, .count = 1000}, topology);
  unchanged({.count = 1000, .algorithm = "ring"}, topology);
  unchanged({.count = 1000, .deterministic = true}, topology);
  unchanged({.count = 1000}, {.ranks = 5, .cores = 5});
  unchanged({.count = 1000}, {.ranks = 4, .cores = 2, .hostOf = {0, 0, 1, 1}});
  tuning.preferences[0].algorithm = "mapped";
  tuning.entryMicroseconds = 1e5;  // nobody would ask
  EXPECT_TRUE(choose(request, topology, tuning).mapped);
  EXPECT_FALSE(choose({.count = 1000}, topology, tuning).mapped);
}

TEST(Chooser, RefusesPreferencesForWhatDoesNotExist) {
  Tuning tuning;
  tuning.preferences = {{"all_reduce", 4, 1, 4096, "mapped"}};
  EXPECT_NO_THROW(requirePreferences(tuning));
  tuning.preferences = {{"all_reduce", 4, 1, 4096, "staged"}};
  EXPECT_NO_THROW(requirePreferences(tuning));
  for (const auto& [collective, algorithm] : {std::pair{"all_produce", "ring"},
                                              {"all_reduce", "rings"},
                                              {"all_reduce", "ring/x"},
                                              {"all_reduce", "mapped/2"},
                                              {"alltoall", "ring"},
                                              {"barrier", "mapped"}}) {
    tuning.preferences = {{collective, 4, 1, 4096, algorithm}};
    EXPECT_THROW(requirePreferences(tuning), Error) << collective << " " << algorithm;
  }
}

// And those that there are for any ranks and hosts are accepted.
TEST(Chooser, AcceptsPreferencesForAllPlansThatThereAre) {
  for (int c = 0; c < plan::kCollectiveCount; ++c)
    for (const auto& hosts : std::vector<std::vector<int>>{
             {}, {0, 1}, {0, 0, 1}, {0, 1, 0, 1}, {0, 0, 0, 1, 1}, {0, 0, 1, 1, 2, 2, 3, 3}})
      for (int ranks = 2; ranks <= 9; ++ranks) {
        if (!hosts.empty() && std::ssize(hosts) != ranks) continue;
        Topology topology{.ranks = ranks, .cores = 2, .hostOf = hosts};
        topology.channels = 4;
        const Choice choice = choose({.collective = static_cast<Collective>(c)}, topology, {});
        for (const Candidate& candidate : choice.candidates) {
          std::string name = plan::toString(candidate.spec.algorithm);
          if (candidate.spec.protocol == Protocol::Mapped)
            name = kPreferMapped;
          else if (candidate.spec.channels > 1)
            name += base::message("/", candidate.spec.channels);
          Tuning tuning;
          tuning.preferences = {{plan::toString(static_cast<Collective>(c)), 4, 1, 4096, name}};
          EXPECT_NO_THROW(requirePreferences(tuning))
              << plan::toString(static_cast<Collective>(c)) << " by " << name;
        }
      }
}

TEST(Chooser, NamesTheLineOfAFileThatPrefersWhatDoesNotExist) {
  const std::string path = testing::TempDir() + "tutti-preferences-test.txt";
  std::ofstream(path) << R"(# measured
prefer = [
  { collective = "all_reduce", ranks = 4, hosts = 1, bytes = 4096, algorithm = "ring" },
  { collective = "alltoall", ranks = 4, hosts = 1, bytes = 4096, algorithm = "ring" },
])";
  const auto outcome = tests::outcomeOf([&] { readTuning(path); });
  EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument);
  EXPECT_EQ(outcome.text, path +
                              ", line 4: alltoall has no algorithm \"ring\": one_shot, "
                              "pairwise, mapped, attached or staged");
  std::remove(path.c_str());
}

TEST(Chooser, NamesWhatAPreferenceProbablyMeans) {
  const auto refusal = [](const std::string& collective, const std::string& algorithm) {
    topology::Tuning tuning;
    tuning.preferences = {{collective, 4, 1, 4096, algorithm}};
    return tests::outcomeOf([&] { requirePreferences(tuning); }).text;
  };
  EXPECT_TRUE(refusal("al_reduce", "ring").ends_with("; did you mean all_reduce?"));
  EXPECT_TRUE(refusal("all_reduce", "rng").ends_with(" or staged; did you mean ring?"));
  EXPECT_TRUE(refusal("all_reduce", "stagd").ends_with("; did you mean staged?"));
}

TEST(Chooser, TakesNoPlanWhoseMessagesDoNotFitTheSlots) {
  const Topology topology{.ranks = 256, .cores = 2, .slotBytes = 512};
  for (int c = 0; c < plan::kCollectiveCount; ++c) {
    const Choice choice =
        choose({.collective = static_cast<Collective>(c), .count = 100}, topology, {});
    for (const Candidate& candidate : choice.candidates)
      EXPECT_LE(candidate.spec.messageChunks * plan::kChunkAlignment, 512U);
  }
}

// Between hosts one lane's message can travel while another's is awaited.
TEST(ChooserOfHosts, TakesPlansOfSeveralLanesWhereTheyFillTheLinks) {
  Topology topology{.ranks = 4, .cores = 2, .hostOf = {0, 1, 2, 3}};
  for (const int channels : {2, 4}) {
    topology.channels = channels;
    const Choice large = choose({.count = 1 << 20}, topology, {});
    EXPECT_EQ(large.spec.algorithm, Algorithm::Ring) << large.reason;
    EXPECT_EQ(large.spec.channels, 2);
    for (const Candidate& candidate : large.candidates)
      EXPECT_LE(candidate.spec.channels, channels) << candidate.spec.describe();
  }
  // Each message takes some time beside its bytes.
  EXPECT_EQ(choose({.count = 1 << 10}, topology, {}).spec.channels, 1);
  topology.hostOf.clear();
  for (const Candidate& candidate : choose({.count = 1 << 20}, topology, {}).candidates)
    EXPECT_LE(candidate.spec.channels, 2) << candidate.spec.describe();
}

TEST(Chooser, LatencyFavoursFewMessagesAndBandwidthFewBytes) {
  const Topology topology{.ranks = 8, .cores = 8};
  EXPECT_EQ(choose({.count = 1}, topology, {}).candidates.front().spec.algorithm,
            Algorithm::OneShot);
  const Choice large = choose({.count = 1 << 24}, topology, {});
  EXPECT_NE(large.spec.algorithm, Algorithm::OneShot);
}

/// Two hosts of four ranks, each with a core of its own, on the default network.
Topology twoHosts() { return {.ranks = 8, .cores = 4, .hostOf = {0, 0, 0, 0, 1, 1, 1, 1}}; }

TEST(ChooserOfHosts, TakesHierarchicalForLargeBlocks) {
  for (Collective c : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter}) {
    const Choice choice = choose({.collective = c, .count = 1 << 24}, twoHosts(), {});
    EXPECT_EQ(choice.spec.algorithm, Algorithm::Hierarchical) << choice.describe();
    EXPECT_EQ(choice.spec.hosts, twoHosts().hostOf);
  }
  const Choice barrier =
      choose({.collective = Collective::Barrier, .algorithm = "hierarchical"}, twoHosts(), {});
  EXPECT_EQ(barrier.spec.algorithm, Algorithm::Hierarchical);
}

TEST(ChooserOfHosts, IsAPureFunction) {
  for (int c = 0; c < plan::kCollectiveCount; ++c)
    for (uint64_t count : {1ULL, 1ULL << 20}) {
      const CollectiveRequest request{.collective = static_cast<Collective>(c), .count = count};
      EXPECT_EQ(choose(request, twoHosts(), {}).describe(),
                choose(request, twoHosts(), {}).describe());
    }
}

TEST(ChooserOfHosts, DoesNotConsiderHierarchicalOnOne) {
  Topology one = twoHosts();
  for (const std::vector<int>& hostOf : {std::vector<int>{}, std::vector<int>(8, 0)}) {
    one.hostOf = hostOf;
    for (int c = 0; c < plan::kCollectiveCount; ++c)
      for (uint64_t count : {1ULL, 1ULL << 24})
        for (const Candidate& candidate :
             choose({.collective = static_cast<Collective>(c), .count = count}, one, {}).candidates)
          EXPECT_NE(candidate.spec.algorithm, Algorithm::Hierarchical);
  }
}

TEST(ChooserOfHosts, MapsNothingAcrossHosts) {
  for (int c = 0; c < plan::kCollectiveCount; ++c) {
    const Choice choice =
        choose({.collective = static_cast<Collective>(c), .count = 1 << 20, .mappable = true},
               twoHosts(), {});
    EXPECT_FALSE(choice.mapped);
    for (const Candidate& candidate : choice.candidates)
      EXPECT_EQ(candidate.spec.protocol, Protocol::Simple);
  }
  EXPECT_TRUE(exists("mapped", Collective::AllReduce, 8));
  EXPECT_FALSE(exists("mapped", Collective::AllReduce, 8, twoHosts().hostOf));
}

TEST(ChooserOfHosts, ForcedAlgorithmsAreTakenOrRefused) {
  const CollectiveRequest request{.count = 1, .algorithm = "hierarchical"};
  EXPECT_EQ(choose(request, twoHosts(), {}).spec.algorithm, Algorithm::Hierarchical);
  EXPECT_TRUE(exists("hierarchical", Collective::AllReduce, 8, twoHosts().hostOf));
  EXPECT_TRUE(exists("hierarchical", Collective::AllGather, 8, twoHosts().hostOf, true));
  EXPECT_FALSE(exists("hierarchical", Collective::AllReduce, 8));
  EXPECT_FALSE(exists("hierarchical", Collective::Scan, 8, twoHosts().hostOf));
  try {
    choose({.collective = Collective::Scan, .algorithm = "hierarchical"}, twoHosts(), {});
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "algorithm hierarchical does not exist for scan on 8 ranks of 2 hosts");
  }
}

TEST(ChooserOfHosts, ChannelsAreForcedAndPreferred) {
  Topology topology = twoHosts();
  topology.channels = 4;
  for (const uint64_t count : {1, 1 << 12, 1 << 24})
    for (const int channels : {1, 2, 4}) {
      const std::string name = base::message("ring/", channels);
      const CollectiveRequest request{.count = count, .algorithm = name};
      for (const Candidate& candidate : choose(request, topology, {}).candidates) {
        EXPECT_EQ(candidate.spec.algorithm, Algorithm::Ring);
        EXPECT_EQ(candidate.spec.channels, channels);
      }
      EXPECT_TRUE(exists(name, Collective::AllReduce, 8, topology.hostOf));
      Tuning tuning;
      tuning.preferences = {{"all_reduce", 8, 2, preferenceBytes(request), name}};
      EXPECT_NO_THROW(requirePreferences(tuning));
      const Choice preferred = choose({.count = count}, topology, tuning);
      EXPECT_EQ(preferred.spec.algorithm, Algorithm::Ring);
      EXPECT_EQ(preferred.spec.channels, channels);
      EXPECT_NE(preferred.reason.find(", as the tuning table prefers"), std::string::npos);
    }
  const auto refused =
      tests::outcomeOf([&] { choose({.count = 1, .algorithm = "ring/8"}, topology, {}); });
  EXPECT_EQ(refused.code, ErrorCode::InvalidArgument);
  EXPECT_EQ(refused.text,
            "algorithm ring/8 does not exist for all_reduce on 8 ranks of 2 hosts with 4 channels");
  EXPECT_TRUE(exists("recursive/1", Collective::AllGather, 8, topology.hostOf));
  EXPECT_FALSE(exists("recursive/2", Collective::AllGather, 8, topology.hostOf));
  EXPECT_FALSE(exists("ring/2", Collective::AllReduce, 8));
}

// A ring passes every link once around; where neighbours are on different hosts, every step does.
TEST(ChooserOfHosts, KnowsWhatTheOrderOfRanksCosts) {
  Topology apart = twoHosts();
  apart.hostOf = {0, 1, 0, 1, 0, 1, 0, 1};
  const CollectiveRequest ring{.count = 1 << 24, .algorithm = "ring"};
  const double neighbours = choose(ring, twoHosts(), {}).candidates[0].microseconds;
  EXPECT_GT(choose(ring, apart, {}).candidates[0].microseconds, 3 * neighbours);
  EXPECT_EQ(choose({.count = 1 << 24}, apart, {}).spec.algorithm, Algorithm::Hierarchical);
}

}  // namespace
}  // namespace tutti::collectives
