// `tutti schedule`: what it draws and says, what it refuses, and that the page about it shows that.
// Arguments: the executable of tutti, and docs/explanation/pipelines.md.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/support/run_tutti.h"
#include "tests/support/test_main.h"

namespace tutti::tools {
namespace {

using Json = nlohmann::json;
using launcher::contains;
using launcher::lines;
using launcher::Result;
using launcher::runTutti;

std::string pagePath;
const tests::Arguments commandLine{{"TUTTI", &launcher::tuttiPath}, {"PAGE", &pagePath}};

const std::vector<std::string> kNames{"naive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"};

Result schedule(std::vector<std::string> options) {
  options.insert(options.begin(), "schedule");
  return runTutti(options);
}

TEST(ScheduleCommand, DrawsAndSays) {
  const Result run = schedule({"1f1b", "-p", "2", "-m", "3", "--actions"});
  EXPECT_EQ(run.exitCode, 0) << run.err;
  EXPECT_EQ(run.out,
            "1f1b: 2 ranks, 3 micro-batches; F takes 1, B 1, W 1, one after the other as B\n\n"
            "rank 0  F0 F1 .  .  B0 -  F2 B1 -  .  B2 -\n"
            "rank 1  .  F0 B0 -  F1 B1 -  F2 B2 -  .  .\n\n"
            "A step takes 12, of which ranks idle 1/4 (25.0%).\n\n"
            "rank  stage  idle         idle in between  activations\n"
            "0     0      1/4 (25.0%)  3                2\n"
            "1     1      1/4 (25.0%)  0                1\n\n"
            "rank 0: F 0 [SendF 0] F 1 [SendF 1, RecvB 0] B 0 F 2 [SendF 2, RecvB 1] B 1 [RecvB 2] "
            "B 2\n"
            "rank 1: [RecvF 0] F 0 [RecvF 1] B 0 [SendB 0] F 1 B 1 [SendB 1, RecvF 2] F 2 B 2 "
            "[SendB 2]\n");
}

TEST(ScheduleCommand, TakesCosts) {
  const auto idleOf = [](std::vector<std::string> options) {
    options.insert(options.end(), {"-p", "4", "-m", "8", "--json", "-"});
    const Result run = schedule(options);
    EXPECT_EQ(run.exitCode, 0) << run.err;
    return Json::parse(run.out)["idle_fraction"];
  };
  EXPECT_EQ(idleOf({"zb-h1", "--costs", "5,6,4"}), (Json{7, 47}));  // 3 (5+6-4) of 8*15 + 21
  EXPECT_EQ(idleOf({"naive", "--costs", "1,1,1"}), (Json{3, 4}));
  // Each micro-batch computes for 12 and waits for six transfers: of 24, a rank computes for 3.
  EXPECT_EQ(idleOf({"naive", "--transfer", "2"}), (Json{7, 8}));
  EXPECT_EQ(idleOf({"interleaved", "--chunks", "4"}), (Json{3, 35}));
  EXPECT_GT(idleOf({"zb-v", "--activations", "2"})[0], idleOf({"zb-v"})[0]);
}

TEST(ScheduleCommand, KeepsLinesShort) {
  for (const std::string& name : kNames)
    for (const std::string& line :
         lines(schedule({name, "-p", "4", "-m", "12", "--costs", "10,7,9"}).out))
      EXPECT_LE(line.size(), 100U) << line;
}

TEST(ScheduleCommand, DrawsPictures) {
  for (const std::string& name : kNames) {
    const launcher::TemporaryFolder folder;
    const Result run = schedule(
        {name, "-p", "3", "-m", "5", "--svg", folder.path().string() + "/s.svg", "--json", "-"});
    EXPECT_EQ(run.exitCode, 0) << run.err;
    const std::string svg = folder.read("s.svg");
    EXPECT_TRUE(contains(svg, name + ", 3 ranks, 5 micro-batches: idle ")) << svg;
    // A box for each computation, one for the paper, a lane for each rank, and the colours.
    size_t boxes = 0, expected = 1 + 3;
    for (size_t at = 0; (at = svg.find("<rect", at)) != std::string::npos; ++at) ++boxes;
    const Json json = Json::parse(run.out);
    for (const Json& rank : json["ranks"]) expected += rank["spans"].size();
    const bool split = name.starts_with("zb");
    expected += (split ? 3 : 2) * json["chunks"].get<size_t>();
    EXPECT_EQ(boxes, expected) << name;
  }
  const Result run = schedule({"1f1b", "-p", "2", "-m", "2", "--svg", "/nowhere/s.svg"});
  EXPECT_EQ(run.exitCode, 1);
  EXPECT_TRUE(contains(run.err, "--svg /nowhere/s.svg cannot be written")) << run.err;
}

TEST(ScheduleCommand, RefusesWhatMakesNoSense) {
  const auto expectRefused = [](const std::vector<std::string>& options, const std::string& why) {
    const Result run = schedule(options);
    EXPECT_EQ(run.exitCode, 2) << run.out;
    EXPECT_TRUE(contains(run.err, why)) << run.err;
  };
  expectRefused({"1f2b", "-p", "4", "-m", "8"},
                "there is no schedule '1f2b': naive, gpipe, 1f1b, interleaved, zb-h1 or zb-v; did "
                "you mean 1f1b?");
  expectRefused({"1f1b", "-p", "4"}, "--micro-batches is required");
  expectRefused({"1f1b", "-m", "4"}, "--ranks is required");
  expectRefused({"1f1b", "-p", "0", "-m", "8"}, "--ranks");
  expectRefused({"1f1b", "-p", "4", "-m", "0"}, "--micro-batches");
  expectRefused({"1f1b", "-p", "4", "-m", "8", "--chunks", "2"},
                "schedule 1f1b has 1 chunk a rank, not 2");
  expectRefused({"zb-v", "-p", "4", "-m", "8", "--chunks", "3"},
                "schedule zb-v has 2 chunks a rank, not 3");
  expectRefused({"interleaved", "-p", "4", "-m", "8", "--chunks", "1"},
                "schedule interleaved has 2 to 64 chunks a rank, not 1");
  expectRefused({"1f1b", "-p", "4", "-m", "8", "--costs", "1,2"}, "--costs has three numbers");
  expectRefused({"1f1b", "-p", "4", "-m", "8", "--costs", "1,0,1"},
                "a computation costs 1 to 1000000, not 0");
  expectRefused({"1f1b", "-p", "4", "-m", "8", "--costs", "1,x,1"},
                "--costs x is not a whole number");
  for (const std::string costs : {"1,,2,3", ",1,2,3", "1,2,3,", ",,"})
    expectRefused({"1f1b", "-p", "4", "-m", "8", "--costs=" + costs},
                  "--costs \"" + costs + "\": between its commas is nothing");
  expectRefused({"1f1b", "-p", "4", "-m", "8", "--transfer", "-1"},
                "a transfer costs 0 to 1000000, not -1");
  expectRefused({"1f1b", "-p", "4", "-m", "8", "--activations", "4"}, "only that of zb-v");
  expectRefused({"zb-v", "-p", "4", "-m", "8", "--activations", "9"},
                "may hold 2 to 8 activations of chunks, not 9");
  expectRefused({"gpipe", "-p", "2", "-m", "2", "--costs", "1,1000000,1", "--svg", "/dev/null"},
                "pixels wide");
  expectRefused({"naive", "-p", "128", "-m", "512", "--svg", "/dev/null"}, "pixels wide");
}

std::string pageText() {
  std::ifstream in(pagePath);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(SchedulePage, ShowsWhatTheCommandPrints) {
  const std::string page = pageText(), fence = "```\n";
  int seen = 0;
  for (size_t at = 0; (at = page.find(fence + "$ tutti ", at)) != std::string::npos; ++seen) {
    const size_t command = at + fence.size() + 8, output = page.find('\n', command) + 1;
    const size_t end = page.find(fence, output);
    std::istringstream words(page.substr(command, output - 1 - command));
    const Result run = runTutti({std::istream_iterator<std::string>(words), {}});
    EXPECT_EQ(run.out, page.substr(output, end - output));
    at = end + fence.size();
  }
  EXPECT_GE(seen, 3);
}

TEST(SchedulePage, HasThePictures) {
  const std::filesystem::path images = std::filesystem::path(pagePath).parent_path() / "images";
  for (const std::string& name : kNames) {
    EXPECT_TRUE(contains(pageText(), "(images/pipeline-" + name + ".svg)")) << name;
    const launcher::TemporaryFolder folder;
    schedule({name, "-p", "4", "-m", "8", "--svg", folder.path().string() + "/s.svg"});
    std::ifstream in(images / ("pipeline-" + name + ".svg"));
    EXPECT_EQ(folder.read("s.svg"), std::string(std::istreambuf_iterator<char>(in), {})) << name;
  }
}

TEST(SchedulePage, NamesEveryField) {
  const std::string page = pageText();
  const std::function<void(const Json&)> look = [&](const Json& json) {
    for (const auto& [key, value] : json.items()) {
      if (json.is_object()) {
        EXPECT_TRUE(contains(page, "`" + key + "`")) << key;
      }
      if (value.is_structured()) look(value);
    }
  };
  look(Json::parse(schedule({"zb-v", "-p", "2", "-m", "3", "--json", "-"}).out));
}

}  // namespace
}  // namespace tutti::tools
