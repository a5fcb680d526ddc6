// Plans from files: what is proved of them, which calls they serve, and what files are refused.

#include "collectives/algorithm_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "collectives/chooser.h"
#include "src/plan/json.h"
#include "tests/collectives/plans.h"
#include "tests/support/outcome.h"
#include "tests/support/temporary_folder.h"

namespace tutti::collectives {
namespace {

using Json = nlohmann::json;
using plan::Buffer;
using plan::CollectiveRequest;

std::string textOf(Algorithm algorithm, const SpecRequest& request) {
  const AlgorithmInfo& info = registry().find(algorithm);
  const PlanSpec spec = info.spec(request).value();
  return plan::toJson(spec, test::programsOf(info, spec));
}

const SpecRequest kAllReduce{Collective::AllReduce, Protocol::Simple, 4, 0, 1};

std::string refusalOf(const std::string& text) {
  const tests::Outcome outcome = tests::outcomeOf([&] { AlgorithmFile("p.json", text); });
  if (outcome.text == "no error") return "";
  EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument);
  return outcome.text;
}

// What the library builds itself passes the proof, and all bounds.
TEST(AlgorithmFile, TakesEveryPlanOfTheLibrary) {
  for (const AlgorithmInfo& info : registry().algorithms())
    for (const int ranks : {1, 2, 5, 8})
      for (const PlanSpec& spec : test::specsOf(info, ranks, 2)) {
        if (spec.protocol == Protocol::Attached) continue;
        const std::vector<Program> programs = test::programsOf(info, spec);
        const AlgorithmFile file("p.json", plan::toJson(spec, programs));
        EXPECT_EQ(file.spec().algorithm, Algorithm::File);
        EXPECT_EQ(file.programs(), programs);
        EXPECT_EQ(file.info().build(file.spec(), ranks - 1), programs.back());
        const Cost cost = file.info().cost(file.spec()), own = info.cost(spec);
        EXPECT_EQ(cost.steps, own.steps) << spec.describe();
        EXPECT_DOUBLE_EQ(cost.blocksSent, own.blocksSent) << spec.describe();
      }
}

TEST(AlgorithmFile, TakesThoseOfManyRanks) {
  for (const Algorithm algorithm : {Algorithm::Ring, Algorithm::DoubleTree, Algorithm::OneShot,
                                    Algorithm::TwoShot, Algorithm::Recursive})
    EXPECT_EQ(refusalOf(textOf(algorithm, {Collective::AllReduce, Protocol::Simple, 64, 0, 1})), "")
        << plan::toString(algorithm);
  EXPECT_EQ(
      refusalOf(textOf(Algorithm::Pairwise, {Collective::AllToAll, Protocol::Simple, 128, 0, 1})),
      "");
}

TEST(AlgorithmFile, HasADigestOfItsPlanAlone) {
  const std::string text = textOf(Algorithm::Ring, kAllReduce);
  const AlgorithmFile file("a.json", text);
  Json json = Json::parse(text);
  EXPECT_EQ(AlgorithmFile("b.json", json.dump(2)).digest(), file.digest());
  json["spec"]["algorithm"] = "file";
  json["spec"].erase("hash");
  EXPECT_EQ(AlgorithmFile("b.json", json.dump()).digest(), file.digest());
  EXPECT_NE(AlgorithmFile("b.json", textOf(Algorithm::TwoShot, kAllReduce)).digest(),
            file.digest());
  // Signals that change nothing but the programs.
  plan::WholePlan whole = plan::parsePlan("p", text);
  plan::Step signal;
  signal.targets = {plan::signal(1)};
  whole.programs[0].lanes[0].steps.push_back(signal);
  signal.targets.clear();
  signal.sources = {plan::signal(0)};
  whole.programs[1].lanes[0].steps.push_back(signal);
  EXPECT_NE(AlgorithmFile("b.json", plan::toJson(whole.spec, whole.programs)).digest(),
            file.digest());
}

TEST(AlgorithmFile, IsRefusedWhereItComputesSomethingElse) {
  const auto changed = [](const auto& change) {
    plan::WholePlan whole = plan::parsePlan("p", textOf(Algorithm::Ring, kAllReduce));
    change(whole);
    return refusalOf(plan::toJson(whole.spec, whole.programs));
  };
  const auto expect = [](const std::string& said, const std::string& words) {
    EXPECT_TRUE(said.starts_with("p.json: the plan is refused: ")) << said;
    EXPECT_NE(said.find(words), std::string::npos) << said;
  };
  // The sum that rank 3 makes lacks its own input.
  expect(changed([](plan::WholePlan& p) {
           plan::Step& step = p.programs[3].lanes[0].steps[1];
           std::erase_if(step.sources, [](const plan::Port& port) {
             return port.kind == plan::Port::Kind::Local;
           });
           step.fold = plan::Fold::None;
         }),
         "rank 3 enters 0 times, not once");
  expect(changed([](plan::WholePlan& p) { p.programs[2].lanes[0].steps.pop_back(); }), "rank 2");
  expect(changed([](plan::WholePlan& p) { p.spec.minSlots = 1; }), "circular wait");
  expect(changed([](plan::WholePlan& p) { p.spec.canonicalOrder = true; }),
         "not in the canonical order");
  expect(changed([](plan::WholePlan& p) { p.spec.unevenSafe = true; }),
         "unlike what the spec says");
  expect(changed([](plan::WholePlan& p) { p.spec.messageChunks = 2; }),
         "messages carry up to 1 chunks, the spec says 2");
  expect(changed([](plan::WholePlan& p) {
           p.spec.hosts = {1, 1, 0, 0};
         }),
         "hosts are two or more, numbered in the order of their first ranks");
}

// Whether a call is in place is its rank's alone to know.
TEST(AlgorithmFile, IsInPlaceWhereItStages) {
  plan::WholePlan whole = plan::parsePlan("p", textOf(Algorithm::Ring, kAllReduce));
  whole.spec.inPlaceSafe = false;
  EXPECT_TRUE(refusalOf(plan::toJson(whole.spec, whole.programs))
                  .starts_with("p.json: spec.in_place_safe is false"));
}

// A small text could ask for a proof that takes days, or all memory.
TEST(AlgorithmFile, IsRefusedWhereItsProofWouldBeTooMuch) {
  const auto changed = [](const auto& change) {
    plan::WholePlan whole = plan::parsePlan("p", textOf(Algorithm::Ring, kAllReduce));
    change(whole);
    return refusalOf(plan::toJson(whole.spec, whole.programs));
  };
  EXPECT_NE(changed([](plan::WholePlan& p) {
              p.spec.divisions = 65536;
              p.spec.scratchBlocks = 65536;
            }).find("chunks in the buffers of all ranks"),
            std::string::npos);
  EXPECT_NE(changed([](plan::WholePlan& p) {
              p.programs[0].lanes[0].steps[0].sources.assign(512,
                                                             plan::local(Buffer::In, 0, 65536));
            }).find("chunks in the sources and targets of all steps"),
            std::string::npos);
  EXPECT_NE(
      changed([](plan::WholePlan& p) {
        const plan::Lane lane{0, std::vector<plan::Step>(20, p.programs[0].lanes[0].steps[0])};
        for (Program& program : p.programs) program.lanes.assign(1024, lane);
      }).find("times lanes, of all ranks"),
      std::string::npos);
  // Lanes cost also where they have no steps.
  EXPECT_NE(changed([](plan::WholePlan& p) {
              for (Program& program : p.programs) program.lanes.resize(1024);
              p.programs.resize(16, p.programs[0]);
              p.spec.ranks = 16;
            }).find("times lanes, of all ranks"),
            std::string::npos);
  EXPECT_EQ(changed([](plan::WholePlan& p) {
              for (Program& program : p.programs) program.lanes.resize(8);
            }),
            "");
}

TEST(AlgorithmFile, SaysWhichCallsItCannotServe) {
  const AlgorithmFile sum("p.json", textOf(Algorithm::Ring, kAllReduce));
  const topology::Topology four{.ranks = 4, .cores = 4};
  EXPECT_EQ(sum.misfit({}, four), "");
  EXPECT_EQ(sum.misfit({.collective = Collective::Reduce}, four), "is for all_reduce");
  EXPECT_EQ(sum.misfit({}, {.ranks = 5}), "is for 4 ranks");
  EXPECT_EQ(sum.misfit({.deterministic = true}, four), "does not add in the canonical order");
  EXPECT_EQ(sum.misfit({.uneven = true}, four), "is for blocks of one size");
  EXPECT_EQ(sum.misfit({}, {.ranks = 4, .slotBytes = 63}),
            "has messages of 1 chunks of at least 64 bytes, and slots have 63");
  EXPECT_EQ(sum.misfit({}, {.ranks = 4, .lanes = 0}),
            "has 1 lanes on a rank, and the blocks of a GPU hold 0");
  EXPECT_EQ(sum.misfit({}, {.ranks = 4, .operands = 3}),
            "has a step of 4 sources and targets, and GPUs take 3");
  EXPECT_EQ(sum.misfit({}, {.ranks = 4, .hostOf = {0, 0, 1, 1}}), "");
  const AlgorithmFile tree("p.json", textOf(Algorithm::DoubleTree, kAllReduce));
  EXPECT_EQ(tree.misfit({}, {.ranks = 4, .channels = 1}), "has 2 channels, and two ranks have 1");
  const AlgorithmFile from2(
      "p.json", textOf(Algorithm::Ring, {Collective::Broadcast, Protocol::Simple, 4, 2, 1}));
  EXPECT_EQ(from2.misfit({.collective = Collective::Broadcast, .root = 2}, four), "");
  EXPECT_EQ(from2.misfit({.collective = Collective::Broadcast, .root = 1}, four), "is for root 2");
  const AlgorithmFile hosts(
      "p.json", textOf(Algorithm::Hierarchical,
                       {Collective::AllReduce, Protocol::Simple, 4, 0, 1, {0, 0, 1, 1}}));
  EXPECT_EQ(hosts.misfit({}, four), "is for ranks on hosts 2x2");
  EXPECT_EQ(hosts.misfit({}, {.ranks = 4, .hostOf = {3, 3, 1, 1}}), "");
  const AlgorithmFile mapped(
      "p.json", textOf(Algorithm::TwoShot, {Collective::AllReduce, Protocol::Mapped, 4, 0, 1}));
  EXPECT_EQ(mapped.misfit({.mappable = true}, {.ranks = 4, .hostOf = {0, 0, 1, 1}}),
            "maps buffers, which ranks of several hosts cannot");
  EXPECT_EQ(mapped.misfit({.mappable = true}, four), "");
  EXPECT_EQ(mapped.misfit({}, four), "maps buffers, and those of this call are never mapped");
  EXPECT_EQ(mapped.misfit({.op = ReduceOp::PreMulSum, .mappable = true}, four),
            "maps buffers, which premulsum cannot");
  EXPECT_EQ(mapped.misfit({.mappable = true, .mayBeInPlace = true}, four), "");
  tests::expectError(tests::outcomeOf([] {
                       AlgorithmFile("p.json",
                                     textOf(Algorithm::TwoShot,
                                            {Collective::AllReduce, Protocol::Attached, 4, 0, 1}));
                     }),
                     ErrorCode::InvalidArgument, "spec.protocol is attached");
  const AlgorithmFile unsafe(
      "p.json", textOf(Algorithm::OneShot, {Collective::AllToAll, Protocol::Mapped, 4, 0, 1}));
  EXPECT_EQ(unsafe.misfit({.collective = Collective::AllToAll, .mappable = true}, four), "");
  EXPECT_EQ(unsafe.misfit(
                {.collective = Collective::AllToAll, .mappable = true, .mayBeInPlace = true}, four),
            "is not safe in place, as calls on GPUs may be");
}

class ChosenFile : public testing::Test {
 protected:
  Choice choose(const CollectiveRequest& request, const AlgorithmFile* file) const {
    return collectives::choose(request, {.ranks = 4, .cores = 4}, {}, file);
  }
  const AlgorithmFile ring_{"ring.json", textOf(Algorithm::Ring, kAllReduce)};
};

TEST_F(ChosenFile, GoesBeforeTheLibrarysPlans) {
  for (const uint64_t count : {1, 1 << 10, 1 << 24})
    for (const char* name : {"", "file"}) {
      const CollectiveRequest request{.count = count, .mappable = true, .algorithm = name};
      const Choice choice = choose(request, &ring_);
      EXPECT_EQ(choice.spec, ring_.spec());
      EXPECT_FALSE(choice.mapped);
      EXPECT_EQ(choice.candidates.front().spec, ring_.spec());
      EXPECT_GT(choice.candidates.front().microseconds, 0);
      EXPECT_NE(choice.reason.find("file, the plan of ring.json, predicted "), std::string::npos)
          << choice.reason;
      for (int rank = 0; rank < 4; ++rank)
        EXPECT_EQ(build(choice.spec, rank, &ring_), ring_.programs()[rank]);
    }
  const CollectiveRequest named{.count = 1, .algorithm = "one_shot"};
  EXPECT_EQ(choose(named, &ring_).describe(), choose(named, nullptr).describe());
}

TEST_F(ChosenFile, LeavesOtherCallsAlone) {
  const CollectiveRequest gather{.collective = Collective::AllGather, .count = 1 << 10};
  const Choice choice = choose(gather, &ring_), without = choose(gather, nullptr);
  EXPECT_EQ(choice.spec, without.spec);
  EXPECT_EQ(choice.reason, without.reason + "; the plan of ring.json is for all_reduce");
  EXPECT_EQ(build(choice.spec, 1, &ring_), build(choice.spec, 1));
  // Which all make, whatever is forced.
  CollectiveRequest barrier{.collective = Collective::Barrier, .algorithm = "file"};
  EXPECT_EQ(choose(barrier, &ring_).spec,
            choose({.collective = Collective::Barrier}, nullptr).spec);
}

TEST_F(ChosenFile, IsRefusedByNameWhereItCannotServe) {
  const auto refused = [&](const CollectiveRequest& request, const AlgorithmFile* file,
                           const std::string& words) {
    tests::expectError(tests::outcomeOf([&] { choose(request, file); }), ErrorCode::InvalidArgument,
                       words);
  };
  refused({.collective = Collective::AllGather, .algorithm = "file"}, &ring_,
          "the algorithm file does not exist for all_gather on 4 ranks: the plan of ring.json is "
          "for all_reduce");
  refused({.algorithm = "file"}, nullptr, "the algorithm file needs a file");
  refused({.collective = Collective::Barrier, .algorithm = "file"}, nullptr, "needs a file");
  refused({.algorithm = "file/2"}, &ring_, "\"file/2\" is not ring, double_tree");
}

TEST_F(ChosenFile, IsTakenWhereBuffersAreMapped) {
  const AlgorithmFile mapped(
      "p.json", textOf(Algorithm::TwoShot, {Collective::AllReduce, Protocol::Mapped, 4, 0, 1}));
  CollectiveRequest request{.count = 8, .mappable = true};
  const Choice free = choose(request, nullptr), choice = choose(request, &mapped);
  EXPECT_EQ(choice.spec, free.spec);
  EXPECT_EQ(choice.mapped, mapped.spec());
  EXPECT_NE(choice.reason.find("instead, where all buffers are mapped, file, the plan of p.json"),
            std::string::npos)
      << choice.reason;
  request.mappable = false;
  EXPECT_FALSE(choose(request, &mapped).mapped);
  request.algorithm = "file";
  const std::string refused = "the plan of p.json maps buffers, ";
  tests::expectError(tests::outcomeOf([&] { choose(request, &mapped); }),
                     ErrorCode::InvalidArgument, refused + "and those of this call");
  request.mappable = true;
  EXPECT_EQ(choose(request, &mapped).mapped, mapped.spec());
  request.op = ReduceOp::PreMulSum;
  tests::expectError(tests::outcomeOf([&] { choose(request, &mapped); }),
                     ErrorCode::InvalidArgument, refused + "which premulsum");
}

TEST(AlgorithmFileRead, RefusesWhatIsNoFile) {
  const tests::TemporaryFolder folder;
  const auto refused = [](const std::string& path, const std::string& words) {
    const tests::Outcome outcome = tests::outcomeOf([&] { AlgorithmFile::read(path); });
    tests::expectError(outcome, ErrorCode::InvalidArgument, path);
    tests::expectError(outcome, ErrorCode::InvalidArgument, words);
  };
  const std::string at = folder.path().string();
  refused(at + "/none", " is not there, or is no regular file");
  refused(at, " is not there, or is no regular file");
  ASSERT_EQ(::mkfifo((at + "/pipe").c_str(), 0600), 0);
  refused(at + "/pipe", " is not there, or is no regular file");
  refused("/dev/zero", " is not there, or is no regular file");
  std::ofstream(at + "/large").put('{');
  std::filesystem::resize_file(at + "/large", (64 << 20) + 1);
  refused(at + "/large", " has more than 67108864 bytes");
  std::ofstream(at + "/empty");
  refused(at + "/empty", " is no JSON: ");
  std::ofstream(at + "/good") << textOf(Algorithm::Ring, kAllReduce);
  EXPECT_EQ(AlgorithmFile::read(at + "/good")->path(), at + "/good");
}

}  // namespace
}  // namespace tutti::collectives
