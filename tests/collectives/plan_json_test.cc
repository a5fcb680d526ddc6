// Plans as JSON: every step and fact is there, what is written is read again, and of what is read
// each field is checked.

#include "src/plan/json.h"

#include <gtest/gtest.h>

#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "collectives/algorithms.h"
#include "tests/collectives/plans.h"
#include "tests/support/address_space.h"
#include "tests/support/child_processes.h"
#include "tests/support/outcome.h"

namespace tutti::collectives {
namespace {

using Json = nlohmann::json;

PlanSpec ringOf(int ranks) {
  return *registry()
              .find(Algorithm::Ring)
              .spec({Collective::AllReduce, Protocol::Simple, ranks, 0, 1});
}

std::string jsonOf(const PlanSpec& spec) {
  return plan::toJson(spec, test::programsOf(registry().find(spec.algorithm), spec));
}

TEST(PlanJson, HasEveryStep) {
  const PlanSpec spec = ringOf(4);
  const std::vector<Program> programs = test::programsOf(registry().find(Algorithm::Ring), spec);
  const auto json = Json::parse(plan::toJson(spec, programs));
  EXPECT_EQ(json["version"], 1);
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
  const auto json = Json::parse(jsonOf(spec));
  EXPECT_EQ(json["spec"]["hosts"], (std::vector<int>{0, 0, 0, 1}));
  // Rank 0 owns a piece: it gives the other host's and results when its lane of sums is through.
  const auto& give = json["programs"][0]["lanes"][1]["steps"];
  EXPECT_EQ(give[0]["after"][0]["lane"], 0);
  EXPECT_EQ(give[0]["after"][0]["step"], json["programs"][0]["lanes"][0]["steps"].size() - 1);
}

TEST(PlanJson, IsReadAsItWasWritten) {
  int plans = 0;
  for (const AlgorithmInfo& info : registry().algorithms())
    for (const int ranks : {1, 2, 3, 4, 5, 8})
      for (const int channels : {1, 2})
        for (const PlanSpec& spec : test::specsOf(info, ranks, channels)) {
          const plan::WholePlan plan{spec, test::programsOf(info, spec)};
          const std::string text = plan::toJson(plan.spec, plan.programs);
          const plan::WholePlan read = plan::parsePlan("a file", text);
          ASSERT_EQ(read, plan) << spec.describe();
          ++plans;
          EXPECT_EQ(plan::hashOf(read.programs), plan::hashOf(plan.programs));
          if (ranks > 4) continue;
          EXPECT_EQ(plan::parsePlan("a file", Json::parse(text).dump(2)), plan) << "in many lines";
        }
  EXPECT_GT(plans, 1000);
}

TEST(PlanJson, HasAHashOfThePrograms) {
  const std::vector<Program> programs =
      test::programsOf(registry().find(Algorithm::Ring), ringOf(4));
  std::vector<Program> other = programs;
  other[3].lanes[0].steps[0].targets[0].chunk = 2;
  EXPECT_NE(plan::hashOf(other), plan::hashOf(programs));
}

class BrokenPlan : public testing::Test {
 protected:
  /// What is said about the plan with `value` at `pointer`.
  std::string with(const std::string& pointer, const Json& value) const {
    Json json = good_;
    json[Json::json_pointer(pointer)] = value;
    return refusalOf(json);
  }
  std::string without(const std::string& pointer) const {
    Json json = good_;
    const Json::json_pointer at(pointer);
    json[at.parent_pointer()].erase(at.back());
    return refusalOf(json);
  }
  static std::string refusalOf(const Json& json) { return refusalOfText(json.dump()); }
  static std::string refusalOfText(const std::string& text) {
    const tests::Outcome outcome = tests::outcomeOf([&] { plan::parsePlan("p.json", text); });
    if (outcome.text == "no error") return "";
    EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument);
    return outcome.text;
  }

  const Json good_ = Json::parse(jsonOf(ringOf(4)));
  const std::string step_ = "/programs/1/lanes/0/steps/2";
};

TEST_F(BrokenPlan, LacksAField) {
  EXPECT_EQ(refusalOf(good_), "");
  EXPECT_EQ(without("/spec/hash"), "") << "nobody needs it";
  for (const char* field : {"version", "spec", "programs"})
    EXPECT_EQ(without(std::string("/") + field),
              "p.json: the plan has no field \"" + std::string(field) + "\"");
  Json spec = good_["spec"];
  spec.erase("hash");
  for (const auto& [field, value] : spec.items())
    EXPECT_EQ(without("/spec/" + field), "p.json: spec has no field \"" + field + "\"");
  for (const char* field : {"in", "out"})
    EXPECT_EQ(without(std::string("/spec/mapped/") + field),
              "p.json: spec.mapped has no field \"" + std::string(field) + "\"");
  EXPECT_EQ(without("/programs/1/lanes"), "p.json: programs[1] has no field \"lanes\"");
  for (const char* field : {"channel", "steps"})
    EXPECT_EQ(without(std::string("/programs/1/lanes/0/") + field),
              "p.json: programs[1].lanes[0] has no field \"" + std::string(field) + "\"");
  for (const char* field : {"sources", "targets", "fold", "completes", "after"})
    EXPECT_EQ(without(step_ + "/" + field),
              "p.json: programs[1].lanes[0].steps[2] has no field \"" + std::string(field) + "\"");
  for (const char* field : {"kind", "rank", "chunk", "chunks"})
    EXPECT_EQ(without(step_ + "/sources/0/" + field),
              "p.json: programs[1].lanes[0].steps[2].sources[0] has no field \"" +
                  std::string(field) + "\"");
}

TEST_F(BrokenPlan, HasAFieldTooMany) {
  EXPECT_EQ(with("/comment", "mine"),
            "p.json: the plan has a field \"comment\", and should have these alone: version, spec, "
            "programs");
  for (const std::string place :
       {"/spec", "/spec/mapped", "/programs/1", "/programs/1/lanes/0",
        "/programs/1/lanes/0/steps/2", "/programs/1/lanes/0/steps/2/sources/0"})
    EXPECT_NE(with(place + "/extra", 1).find(" has a field \"extra\", and should have these alone"),
              std::string::npos)
        << place;
  EXPECT_NE(with(step_ + "/sources/0/buffer", "in").find("a field \"buffer\""), std::string::npos)
      << "a message lies in no buffer";
}

TEST_F(BrokenPlan, HasAValueThatCannotBe) {
  const auto refused = [&](const std::string& pointer, const Json& value,
                           const std::string& words) {
    const std::string said = with(pointer, value);
    EXPECT_TRUE(said.starts_with("p.json: ")) << pointer << ": " << said;
    EXPECT_TRUE(said.ends_with(words)) << pointer << ": " << said;
  };
  refused("/version", 2, "version is 2, not a whole number from 1 to 1");
  refused("/spec/collective", "all_produce",
          "spec.collective is \"all_produce\", none of all_reduce, all_gather, reduce_scatter, "
          "broadcast, reduce, gather, scatter, alltoall, scan, barrier");
  refused("/spec/algorithm", 7,
          "spec.algorithm is 7, none of ring, double_tree, recursive, one_shot, two_shot, "
          "pairwise, hierarchical, file");
  refused("/spec/protocol", "fast", "spec.protocol is \"fast\", none of simple, mapped, attached");
  for (const Json& ranks : {Json(0), Json(-1), Json(257), Json(4.0), Json("4"), Json(nullptr)})
    refused("/spec/ranks", ranks,
            "spec.ranks is " + ranks.dump() + ", not a whole number from 1 to 256");
  refused("/spec/ranks", 1e300, "not a whole number from 1 to 256");
  refused("/spec/root", 4, "spec.root is 4, not a whole number from 0 to 3");
  refused("/spec/hosts", 4, "spec.hosts is 4, not a list");
  refused("/spec/hosts", {0, 0, 1, 4}, "spec.hosts[3] is 4, not a whole number from 0 to 3");
  refused("/spec/hosts", {0, 0, 1, 1, 1}, "spec.hosts has 5 items, and 4 are possible at most");
  refused("/spec/channels", 65, "spec.channels is 65, not a whole number from 1 to 64");
  refused("/spec/divisions", 0, "spec.divisions is 0, not a whole number from 1 to 65536");
  refused("/spec/divisions", 65537, "from 1 to 65536");
  for (const char* field : {"scratch_blocks", "message_chunks"})
    refused(std::string("/spec/") + field, 65537,
            std::string(field) + " is 65537, not a whole number from 0 to 65536");
  refused("/spec/min_slots", 3, "spec.min_slots is 3, not a whole number from 1 to 2");
  refused("/spec/mapped", true, "spec.mapped is true, not an object");
  refused("/spec/mapped/in", 0, "spec.mapped.in is 0, not true or false");
  refused("/spec/mapped/out", Json::array(), "spec.mapped.out is a list, not true or false");
  for (const char* field : {"in_place_safe", "uneven_safe", "canonical_order"})
    refused(std::string("/spec/") + field, "yes", "is \"yes\", not true or false");
}

TEST_F(BrokenPlan, HasAStepThatCannotBe) {
  const auto refused = [&](const std::string& pointer, const Json& value,
                           const std::string& words) {
    const std::string said = with(pointer, value);
    EXPECT_TRUE(said.ends_with(words)) << pointer << ": " << said;
  };
  refused("/programs", "none", "p.json: programs is \"none\", not a list");
  refused("/programs", Json::array({good_["programs"][0]}),
          "programs has 1 items, and spec.ranks is 4");
  refused("/programs/1", 1, "programs[1] is 1, not an object");
  refused("/programs/1/lanes", Json::object(), "programs[1].lanes is an object, not a list");
  refused("/programs/1/lanes", Json::array_t(1025, good_["programs"][0]["lanes"][0]),
          "programs[1].lanes has 1025 items, and 1024 are possible at most");
  refused("/programs/1/lanes/0/channel", 1, "channel is 1, not a whole number from 0 to 0");
  const std::string at = "programs[1].lanes[0].steps[2]";
  refused(step_, Json::array(), at + " is a list, not an object");
  refused(step_ + "/sources", 0, at + ".sources is 0, not a list");
  refused(step_ + "/targets", Json::array_t(513, good_[Json::json_pointer(step_ + "/targets/0")]),
          at + ".targets has 513 items, and 512 are possible at most");
  refused(step_ + "/fold", "sum", at + ".fold is \"sum\", none of none, listed, canonical");
  refused(step_ + "/completes", 1, at + ".completes is 1, not true or false");
  refused(step_ + "/after", {{{"lane", -1}, {"step", 0}}},
          at + ".after[0].lane is -1, not a whole number from 0 to 4294967295");
  refused(step_ + "/after", {{{"lane", 0}, {"step", "0"}}},
          at + ".after[0].step is \"0\", not a whole number from 0 to 4294967295");
  refused(step_ + "/after", {{{"lane", 0}}}, at + ".after[0] has no field \"step\"");
  refused(step_ + "/sources/0/kind", "mail",
          at + ".sources[0].kind is \"mail\", none of local, mapped, channel");
  refused(step_ + "/sources/0/rank", 4, ".sources[0].rank is 4, not a whole number from 0 to 3");
  refused(step_ + "/sources/0/chunk", -1, ".chunk is -1, not a whole number from 0 to 65536");
  refused(step_ + "/sources/0/chunks", uint64_t{1} << 32,
          ".chunks is 4294967296, not a whole number from 0 to 65536");
  Json local = {{"kind", "local"}, {"buffer", "heap"}, {"chunk", 0}, {"chunks", 1}};
  refused(step_ + "/sources/0", local, ".buffer is \"heap\", none of in, out, scratch");
  local["buffer"] = "in";
  local["chunks"] = 0;
  refused(step_ + "/sources/0", local, ".chunks is 0, not a whole number from 1 to 65536");
}

TEST_F(BrokenPlan, IsNoPlanAtAll) {
  for (const char* text : {"", "{", "[1", "{\"version\": 1}}", "{\"version\": NaN}", "\xff"})
    EXPECT_TRUE(refusalOfText(text).starts_with("p.json is no JSON: ")) << text;
  // Not by the words of the parser's exceptions, and nothing behind a zero.
  EXPECT_TRUE(refusalOfText("{").starts_with("p.json is no JSON: parse error at line 1, column 2"));
  EXPECT_EQ(refusalOfText("\xff\x1b").find_first_of("\xff\x1b"), std::string::npos);
  EXPECT_EQ(refusalOfText("[]" + std::string(1, '\0') + "more"),
            "p.json is no JSON: byte 2 is zero");
  EXPECT_EQ(refusalOfText("[]"), "p.json: the plan is a list, not an object");
  EXPECT_EQ(refusalOfText("{\"version\": 1, \"version\": 1}"), "p.json: version is there twice");
  EXPECT_EQ(refusalOfText(std::string(100000, '[')), "p.json is nested more than 64 deep");
  EXPECT_TRUE(refusalOfText("{\"version\": \"\\u001b[2J" + std::string(1000, 'x') + "\"}").size() <
              200);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Four million numbers: a parser without memory for them would end the process.
TEST(PlanWithoutMemory, IsRefusedBeforeItIsParsed) {
  std::string text = "[0";
  for (int i = 0; i < 4'000'000; ++i) text += ",0";
  text += "]";
  EXPECT_EQ(tests::inChild([&] {
              if (!tests::leaveMemory(400 << 20)) return 2;
              try {
                plan::parsePlan("p.json", text);
              } catch (const std::bad_alloc&) {
                return 0;
              } catch (const Error&) {
                return 1;
              }
              return 1;
            }),
            0);
}
#endif

}  // namespace
}  // namespace tutti::collectives
