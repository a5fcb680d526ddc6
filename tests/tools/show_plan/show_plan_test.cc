// `tutti plan` as people run it: the plans that it shows, in words, as JSON and as a picture.

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/support/run_tutti.h"
#include "tests/support/test_main.h"

namespace tutti::launcher {
namespace {

std::string page;
const tests::Arguments commandLine{{"TUTTI", &tuttiPath}, {"PAGE", &page}};

using Json = nlohmann::json;

TEST(PlanCommand, FailsWhenItsOutputIsLost) {
  const Result run = runTutti(
      {"run", "-n", "1", "sh", "-c", tuttiPath + " plan all_reduce -n 2 >/dev/full; echo code $?"});
  EXPECT_EQ(run.out, "[0] code 1\n");
  EXPECT_EQ(run.err, "[0] tutti: standard output could not be written: No space left on device\n");
}

TEST(PlanCommand, ShowsStepsAndAPicture) {
  const Result run = runTutti({"plan", "ring", "all_reduce", "-n", "2"});
  EXPECT_EQ(run.exitCode, 0) << run.err;
  EXPECT_EQ(
      run.out,
      R"(all_reduce ring simple, 2 ranks, 1 channel, divisions 2, message chunks 1, slots 2, in place, canonical order
rank 0
  lane 0, channel 0
    0: in 0 -> channel 1 chunk 0
    1: listed(channel 1 chunk 1, in 1) -> out 1, channel 1 chunk 1, completes
    2: channel 1 chunk 0 -> out 0
rank 1
  lane 0, channel 0
    0: in 1 -> channel 0 chunk 1
    1: listed(channel 0 chunk 0, in 0) -> out 0, channel 0 chunk 0, completes
    2: channel 0 chunk 1 -> out 1

all_reduce ring simple, 2 ranks, 1 channel, divisions 2, message chunks 1, slots 2, in place, canonical order
         0     1
step 1   o----->   0
         <-----o   1
step 2   o----->   1
         <-----o   0
)");
}

TEST(PlanCommand, WithoutAnAlgorithmSaysWhatWouldBeChosenAndWhy) {
  const Result run = runTutti({"plan", "all_reduce", "-n", "4", "-b", "4K", "--cores", "2"});
  EXPECT_EQ(run.exitCode, 0) << run.err;
  EXPECT_EQ(lines(run.out)[0],
            "4 ranks on 1 host, 2 cores, slots of 262144 bytes, attached to each other's memory, "
            "oversubscribed");
  EXPECT_NE(run.out.find("all_reduce of 4096 uint8, sum: "), std::string::npos) << run.out;
  EXPECT_NE(run.out.find(" us  all_reduce ring simple, 4 ranks"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("\nrank 3\n"), std::string::npos) << run.out;
}

TEST(PlanCommand, WritesJsonAndSvg) {
  for (const char* algorithm : {"recursive", "two_shot", "mapped"}) {
    const Result run =
        runTutti({"plan", algorithm, "reduce", "-n", "5", "--root", "3", "--json", "-"});
    EXPECT_EQ(run.exitCode, 0) << run.err;
    const Json json = Json::parse(run.out);
    EXPECT_EQ(json["spec"]["root"], 3);
    EXPECT_EQ(json["spec"]["protocol"], std::string(algorithm) == "mapped" ? "mapped" : "simple");
    EXPECT_EQ(json["programs"].size(), 5u);
  }
  const TemporaryFolder folder;
  const std::string file = folder.path().string() + "/plan.svg";
  const Result picture = runTutti({"plan", "barrier", "-n", "3", "--svg", file});
  EXPECT_EQ(picture.exitCode, 0) << picture.err;
  EXPECT_NE(picture.out.find("\nrank 2\n"), std::string::npos) << picture.out;
  const std::string svg = folder.read("plan.svg");
  EXPECT_TRUE(svg.starts_with("<svg")) << svg.substr(0, 80);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  for (const std::string wrong : {"/nowhere/at/all.svg", "/dev/full"}) {
    const std::string why =
        wrong == "/dev/full" ? "No space left on device" : "No such file or directory";
    const Result lost = runTutti({"plan", "barrier", "-n", "3", "--svg", wrong});
    EXPECT_EQ(lost.exitCode, 1);
    EXPECT_EQ(lost.out, "");
    EXPECT_EQ(lost.err, "tutti plan: --svg " + wrong + " cannot be written: " + why + "\n");
  }
}

TEST(PlanCommand, PlacesRanksOnHosts) {
  const Result chosen = runTutti({"plan", "all_reduce", "-n", "8", "--hosts", "2x4", "-b", "64M"});
  EXPECT_EQ(chosen.exitCode, 0) << chosen.err;
  EXPECT_EQ(lines(chosen.out)[0],
            "8 ranks on 2 hosts, 4 cores each, slots of 131072 bytes in 4 channels; host of each "
            "rank: 0 0 0 0 1 1 1 1");
  EXPECT_TRUE(lines(chosen.out)[1].starts_with("all_reduce of 67108864 uint8, sum: hierarchical"))
      << lines(chosen.out)[1];
  EXPECT_NE(chosen.out.find("\nrank 7\n"), std::string::npos);
  EXPECT_NE(chosen.out.find("\nstep 4 "), std::string::npos);
  const Result uneven = runTutti(
      {"plan", "hierarchical", "all_gather", "-n", "8", "--hosts", "3,1,4", "--json", "-"});
  EXPECT_EQ(uneven.exitCode, 0) << uneven.err;
  EXPECT_EQ(Json::parse(uneven.out)["spec"]["hosts"], (std::vector<int>{0, 0, 0, 1, 2, 2, 2, 2}));
  const Result one = runTutti({"plan", "all_reduce", "-n", "2", "--hosts", "2", "-b", "1K"});
  EXPECT_EQ(one.exitCode, 0) << one.err;
  EXPECT_EQ(lines(one.out)[0],
            "2 ranks on 1 host, 2 cores, slots of 262144 bytes, attached to each other's memory");
}

/// The program of the page, which writes a plan.
std::string programOfThePage() {
  std::ifstream in(page);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::string begin = "```python\n";
  const size_t from = text.find(begin) + begin.size();
  return text.substr(from, text.find("```", from) - from);
}

TEST(PlanCommand, ProvesAndShowsThePlanOfAFile) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "plan.json", other = folder.path() / "other.json";
  for (const char* algorithm : {"ring", "two_shot", "mapped"}) {
    const std::string json =
        runTutti({"plan", algorithm, "reduce", "-n", "5", "--root", "3", "--json", "-"}).out;
    std::ofstream(file) << json;
    const Result shown = runTutti({"plan", "--file", file, "-b", "4K"});
    EXPECT_EQ(shown.exitCode, 0) << shown.err;
    EXPECT_TRUE(lines(shown.out)[0].starts_with(file + " is proved: ")) << lines(shown.out)[0];
    EXPECT_NE(shown.out.find("file, the plan of " + file + ", predicted "), std::string::npos)
        << shown.out;
    EXPECT_NE(shown.out.find(" us  reduce file "), std::string::npos) << shown.out;
    EXPECT_NE(shown.out.find(" us  reduce ring simple"), std::string::npos) << shown.out;
    EXPECT_NE(shown.out.find("\nrank 4\n"), std::string::npos) << shown.out;
    const Result again =
        runTutti({"plan", "--file", file, "--json", "-", "--svg", folder.path() / "p.svg"});
    EXPECT_EQ(again.exitCode, 0) << again.err;
    const Json before = Json::parse(json), after = Json::parse(again.out);
    EXPECT_EQ(after["spec"]["algorithm"], "file");
    EXPECT_EQ(after["programs"], before["programs"]);
    std::ofstream(other) << again.out;
    EXPECT_EQ(runTutti({"plan", "--file", other, "--json", "-"}).out, again.out);
    EXPECT_TRUE(folder.read("p.svg").starts_with("<svg"));
  }
  std::ofstream(file) << runTutti({"plan", "hierarchical", "all_gather", "-n", "8", "--hosts",
                                   "3,1,4", "--json", "-"})
                             .out;
  const Result hosts = runTutti({"plan", "--file", file});
  EXPECT_EQ(hosts.exitCode, 0) << hosts.err;
  EXPECT_TRUE(contains(hosts.out, "8 ranks on 3 hosts")) << hosts.out;
}

TEST(PlanCommand, ProvesThePlanOfThePage) {
  const Result python = Command({"python3", "-c", programOfThePage()}).wait();
  ASSERT_EQ(python.exitCode, 0) << python.err;
  const TemporaryFolder folder;
  const std::string file = folder.path() / "star.json";
  std::ofstream(file) << python.out;
  const Result shown = runTutti({"plan", "--file", file});
  EXPECT_EQ(shown.exitCode, 0) << shown.err;
  const Result run = Command({tuttiPath, "perf", "all_reduce", "-n", "4", "-b", "64K", "-e", "64K",
                              "--iters", "3", "--algo", "file"},
                             {}, {"TUTTI_ALGORITHM_FILE=" + file})
                         .wait();
  EXPECT_EQ(run.exitCode, 0) << run.out << run.err;
}

TEST(PlanCommand, RefusesAFileByName) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "plan.json";
  const auto refusal = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"plan", "--file", file});
    const Result run = runTutti(words);
    EXPECT_EQ(run.exitCode, 2);
    EXPECT_EQ(run.out, "");
    return run.err;
  };
  EXPECT_EQ(refusal({}),
            "tutti plan: the algorithm file " + file + " is not there, or is no regular file\n");
  Json json = Json::parse(runTutti({"plan", "ring", "all_reduce", "-n", "3", "--json", "-"}).out);
  json["programs"][1]["lanes"][0]["steps"].erase(1);
  std::ofstream(file) << json.dump();
  EXPECT_TRUE(refusal({}).starts_with("tutti plan: " + file +
                                      ": the plan is refused: rank 1, lane 0, step "))
      << refusal({});
  json["spec"]["ranks"] = "three";
  std::ofstream(file) << json.dump();
  EXPECT_EQ(refusal({}), "tutti plan: " + file +
                             ": spec.ranks is \"three\", not a whole number from 1 to 256\n");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"-n", "3"}, {"--root", "0"}, {"all_reduce"}})
    EXPECT_EQ(refusal(words),
              "tutti plan: --file says the collective, the ranks and the root: name none of "
              "these\n");
  std::ofstream(file) << runTutti({"plan", "ring", "all_reduce", "-n", "4", "--json", "-"}).out;
  EXPECT_NE(refusal({"--deterministic"}).find("does not add in the canonical order"),
            std::string::npos);
  EXPECT_EQ(runTutti({"plan", "-n", "2"}).err, "tutti plan: name a collective, or --file\n");
}

TEST(PlanCommand, RefusesByName) {
  const auto refusal = [](std::vector<std::string> words) {
    words.insert(words.begin(), "plan");
    const Result run = runTutti(words);
    EXPECT_EQ(run.exitCode, 2);
    EXPECT_EQ(run.out, "");
    return run.err;
  };
  EXPECT_EQ(
      refusal({"all_produce", "-n", "2"}),
      "tutti plan: there is no collective 'all_produce': all_reduce, all_gather, "
      "reduce_scatter, broadcast, reduce, gather, scatter, alltoall, scan or barrier; did you "
      "mean all_reduce?\n");
  EXPECT_EQ(refusal({"reduce", "-n", "2", "--root", "2"}),
            "tutti plan: --root 2 is not a rank of 0..1\n");
  EXPECT_EQ(refusal({"ring", "barrier", "-n", "2"}),
            "tutti plan: algorithm ring does not exist for barrier on 2 ranks\n");
  EXPECT_EQ(refusal({"mapped", "barrier", "-n", "2"}),
            "tutti plan: algorithm mapped does not exist for barrier on 2 ranks\n");
  EXPECT_NE(refusal({"rings", "reduce", "-n", "2"}).find("did you mean ring?"), std::string::npos);
  EXPECT_NE(refusal({"ring", "all_reduce", "-n", "4", "--deterministic"}).find("canonical order"),
            std::string::npos);
  EXPECT_NE(refusal({"reduce"}).find("--ranks"), std::string::npos);
  EXPECT_EQ(refusal({"hierarchical", "all_reduce", "-n", "4"}),
            "tutti plan: algorithm hierarchical does not exist for all_reduce on 4 ranks of one "
            "host\n");
  EXPECT_EQ(refusal({"mapped", "all_reduce", "-n", "4", "--hosts", "2x2"}),
            "tutti plan: algorithm mapped does not exist for all_reduce on 4 ranks of several "
            "hosts\n");
  for (const std::string hosts : {"2x4", "3,1,4", "2x", "2,", ",2", "x4", "4x0", "0", "2x2x", "2 2",
                                  "99999999999999999999", "4,4294967296"})
    EXPECT_TRUE(std::regex_search(refusal({"all_reduce", "-n", "4", "--hosts", hosts}),
                                  std::regex("^tutti plan: --hosts \"?" + hosts + "\"?:? ")))
        << hosts;
}

}  // namespace
}  // namespace tutti::launcher
