// `tutti shard`: which case an axis is, what is sent and how long that takes, and that the page
// about it shows what it says. Arguments: the executable of tutti, and
// docs/explanation/sharding.md.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "src/tools/shard/shard_report.h"
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

const char* const kSizes = "I=64,J=64,K=64";

ShardReport reportOf(const std::string& product, std::vector<std::string> options = {},
                     const std::string& mesh = "x=4", const std::string& sizes = kSizes) {
  options.insert(options.begin(), {"shard", product, "--mesh", mesh, "--sizes", sizes});
  std::vector<const char*> words;
  for (const std::string& option : options) words.push_back(option.c_str());
  const auto parsed = parseShard(static_cast<int>(words.size()), words.data());
  return shardReport(std::get<ShardOptions>(parsed));
}

/// Such as "AllGather A x, multiply".
std::string stepsOf(const ShardWay& way) {
  std::string text;
  for (const ShardStep& step : way.steps) {
    if (!text.empty()) text += ", ";
    text += step.what;
    if (step.axis != 0) text += " " + step.tensor + " " + step.axis;
  }
  return text;
}

TEST(Shard, KnowsTheFourCases) {
  const auto caseOf = [](const std::string& product) {
    const ShardReport report = reportOf(product);
    EXPECT_EQ(report.cases.size(), 1U);
    EXPECT_EQ(report.cases.at(0).axis, 'x');
    return report.cases.at(0).number;
  };
  EXPECT_EQ(caseOf("A[Ix,J] B[J,K] -> C[Ix,K]"), 1);
  EXPECT_EQ(caseOf("A[I,J] B[J,Kx] -> C[I,Kx]"), 1);
  EXPECT_EQ(caseOf("A[I,Jx] B[J,K] -> C[I,K]"), 2);
  EXPECT_EQ(caseOf("A[I,J] B[Jx,K] -> C[I,K]"), 2);
  EXPECT_EQ(caseOf("A[I,Jx] B[Jx,K] -> C[I,K]"), 3);
  EXPECT_EQ(caseOf("A[Ix,J] B[J,Kx] -> C[I,K]"), 4);
  EXPECT_EQ(caseOf("A[Ix,J] B[Jx,K] -> C[I,K]"), 4);
  for (const std::string other : {"A[I,J]{Ux} B[J,K] -> C[I,K]", "A[I,J]{Ux} B[J,K]{Ux} -> C[I,K]",
                                  "A[I,J]{Ux} B[Jx,K] -> C[I,K]"})
    EXPECT_EQ(caseOf(other), 0) << other;
}

TEST(Shard, SaysWhyInTermsOfTheProduct) {
  const auto wordsOf = [](const std::string& product, const std::string& sizes = kSizes) {
    return reportOf(product, {}, "x=2,y=2", sizes).cases.at(0).words;
  };
  EXPECT_TRUE(contains(wordsOf("A[I,J] B[Jx,K] -> C[I,K]"),
                       "x splits J, which is summed over, in B alone: B is gathered first"));
  EXPECT_TRUE(contains(wordsOf("A[Ix,J] B[J,Kx] -> C[I,K]"), "x splits I of A and K of B."));
  EXPECT_TRUE(contains(wordsOf("A[I,Jx] B[I,J] -> C[I,J]", "I=8,J=8"),
                       "x splits J, which C has too, in A alone: B is sliced"));
  EXPECT_TRUE(contains(wordsOf("A[I,Jxy] B[Jyx,K] -> C[I,K]"), "in the same order"));
  EXPECT_TRUE(contains(wordsOf("A[I,J]{Ux} B[J,K] -> C[I,K]"), "A is a sum over x"));
  EXPECT_TRUE(contains(wordsOf("A[I,J] B[J,K]{Ux} -> C[I,K]"), "B is a sum over x"));
  EXPECT_TRUE(
      contains(wordsOf("A[I,J]{Ux} B[J,Kx] -> C[I,K]"), "x splits K of B, and A is a sum over it"));
  EXPECT_TRUE(contains(wordsOf("A[I,J]{Ux} B[J,K]{Ux} -> C[I,K]"), "both operands are sums"));
  // Axes in the order of the mesh, and none that only the result has.
  const ShardReport two = reportOf("A[I,Jy] B[Jy,Kx] -> C[I,Kz]", {}, "x=2,y=2,z=2");
  ASSERT_EQ(two.cases.size(), 2U);
  EXPECT_EQ(two.cases[0].axis, 'x');
  EXPECT_EQ(two.cases[1].axis, 'y');
}

TEST(Shard, CountsBytesAndOperations) {
  const ShardReport report = reportOf("A[I,Jx] B[Jx,K] -> C[I,K]", {}, "x=4", "I=60,J=42,K=8");
  EXPECT_EQ(report.ranks, 4);
  EXPECT_EQ(report.flops, 2.0 * 60 * 42 * 8);
  ASSERT_EQ(report.tensors.size(), 3U);
  EXPECT_EQ(report.tensors[0].text, "A[I,Jx]");
  EXPECT_EQ(report.tensors[0].bytes, 4U * 60 * 42);
  EXPECT_EQ(report.tensors[0].part, parallel::Shape({60, 11}));  // 42 over 4
  EXPECT_EQ(report.tensors[0].partBytes, 4U * 60 * 11);
  const ShardWay& way = report.ways.at(0);
  EXPECT_EQ(stepsOf(way), "multiply, AllReduce C x");
  EXPECT_EQ(way.flops, 2.0 * 60 * 11 * 8);
  EXPECT_EQ(way.sentBytes, 4U * 2 * 60 * 8 * 3 / 4);
  EXPECT_EQ(way.sentBytes, way.steps[1].sentBytes);
  EXPECT_EQ(way.microseconds, way.steps[1].microseconds);
  EXPECT_GT(way.microseconds, 0);
  EXPECT_EQ(way.steps[1].before, "C[I,K]{Ux}");
  EXPECT_EQ(way.steps[1].after, "C[I,K]");
  EXPECT_EQ(way.steps[0].before, "A[I,Jx] B[Jx,K]");
  EXPECT_EQ(way.steps[0].after, "C[I,K]{Ux}");
  const ShardReport doubles = reportOf("A[I,Jx] B[Jx,K] -> C[I,K]", {"--type", "float64"});
  EXPECT_EQ(doubles.tensors[2].bytes, 8U * 64 * 64);
  EXPECT_EQ(doubles.ways[0].sentBytes, 8U * 2 * 64 * 64 * 3 / 4);
}

TEST(Shard, TakesAnAllReduceApart) {
  for (const std::string product : {"A[I,Jx] B[Jx,K] -> C[I,K]", "A[I,Jx] B[J,K] -> C[I,K]"}) {
    const auto halves = reportOf(product).halves;
    ASSERT_TRUE(halves) << product;
    EXPECT_EQ(halves->bytes, 4U * 64 * 64);
    EXPECT_EQ(halves->allReduce.what, "AllReduce");
    EXPECT_EQ(halves->reduceScatter.what, "ReduceScatter");
    EXPECT_EQ(halves->allGather.what, "AllGather");
    EXPECT_EQ(halves->reduceScatter.after, halves->allGather.before);
    EXPECT_EQ(halves->allReduce.sentBytes, 2 * halves->allGather.sentBytes);
    EXPECT_EQ(halves->allReduce.sentBytes,
              halves->reduceScatter.sentBytes + halves->allGather.sentBytes);
  }
  EXPECT_FALSE(reportOf("A[I,Jx] B[Jx,K] -> C[Ix,K]").halves);
  // A dimension that is long enough, and none in a scalar.
  EXPECT_EQ(
      reportOf("A[I,Jx] B[Jx,K] -> C[I,K]", {}, "x=4", "I=2,J=64,K=8").halves->allGather.before,
      "C[I,Kx]");
  EXPECT_FALSE(reportOf("A[Jx] B[Jx] -> C[]", {}, "x=4", "J=64").halves);
}

/// What `tutti explain` predicts.
double explained(const std::string& collective, const std::string& count,
                 std::vector<std::string> options) {
  options.insert(options.begin(), {"explain", collective, "--count", count});
  const Result run = runTutti(options);
  EXPECT_EQ(run.exitCode, 0) << run.err;
  std::smatch found;
  if (!std::regex_search(run.out, found, std::regex("predicted ([0-9.]+) us"))) {
    ADD_FAILURE() << run.out;
    return 0;
  }
  return std::stod(found[1]);
}

TEST(Shard, PredictsWhatTheChooserPredicts) {
  const auto us = [](const std::string& product, std::vector<std::string> options = {},
                     const std::string& mesh = "x=4",
                     const std::string& sizes = "I=1024,J=1024,K=1024") {
    const ShardReport report = reportOf(product, options, mesh, sizes);
    for (const ShardStep& step : report.ways.at(0).steps)
      if (step.axis == 'x' && step.sentBytes > 0) return step.microseconds;
    ADD_FAILURE() << product;
    return 0.0;
  };
  const double least = 0.005;  // of what explain prints
  const std::string allReduce = "A[I,Jx] B[Jx,K] -> C[I,K]";
  EXPECT_NEAR(us(allReduce), explained("all_reduce", "1M", {"-n", "4", "--cores", "4"}), least);
  EXPECT_NEAR(us("A[I,Jx] B[Jx,K] -> C[Ix,K]"),
              explained("reduce_scatter", "256K", {"-n", "4", "--cores", "4"}), least);
  EXPECT_NEAR(us("A[Ix,J] B[J,Kx] -> C[Ix,K]"),
              explained("all_gather", "256K", {"-n", "4", "--cores", "4"}), least);
  EXPECT_NEAR(us("A[Ix,J] B[J] -> C[I,Jx]", {}, "x=4", "I=1024,J=1024"),
              explained("alltoall", "64K", {"-n", "4", "--cores", "4"}), least);
  EXPECT_NEAR(us(allReduce, {"--cores", "2"}),
              explained("all_reduce", "1M", {"-n", "4", "--cores", "2"}), least);
  EXPECT_NEAR(us(allReduce, {"--hosts", "2x2"}),
              explained("all_reduce", "1M", {"-n", "4", "--hosts", "2x2"}), least);
  // Two groups of four, on a host each, or with two cores for each, or side by side.
  EXPECT_NEAR(us(allReduce, {"--hosts", "2x4", "--cores", "2"}, "y=2,x=4"),
              explained("all_reduce", "1M", {"-n", "4", "--cores", "2"}), least);
  EXPECT_NEAR(us(allReduce, {"--cores", "4"}, "y=2,x=4"),
              explained("all_reduce", "1M", {"-n", "4", "--cores", "2"}), least);
}

TEST(Shard, SharesTheLinksOfHosts) {
  const std::string product = "A[I,Jx] B[Jx,K] -> C[I,K]";
  const auto us = [&](const std::string& mesh, const std::string& hosts) {
    return reportOf(product, {"--hosts", hosts}, mesh, "I=4096,J=4096,K=4096")
        .ways.at(0)
        .microseconds;
  };
  const double alone = us("x=2", "2x1");
  // Neighbours along y are on one host, and their partners along x on the other: a link for two.
  const double shared = us("x=2,y=2", "2x2");
  EXPECT_GT(shared, 1.6 * alone);
  EXPECT_LT(shared, 2.4 * alone);
  EXPECT_LT(us("y=2,x=2", "2x2"), alone);  // inside a host
  // Of groups that are placed in different ways, the slowest.
  EXPECT_GE(us("y=2,x=2", "3,1"), us("y=2,x=2", "2x2"));
  EXPECT_GT(us("y=2,x=2", "3,1"), 2 * us("y=2,x=2", "2x2"));
}

TEST(Shard, SendsNothingAlongAxesOfOneRank) {
  const ShardReport report = reportOf("A[I,Jx] B[Jx,K] -> C[I,K]", {}, "x=1");
  EXPECT_EQ(report.ways.at(0).sentBytes, 0U);
  EXPECT_EQ(report.ways.at(0).microseconds, 0);
}

TEST(Shard, PredictsUnevenParts) {
  const ShardReport report =
      reportOf("A[Ix,J] B[J] -> C[I,Jx]", {}, "x=3", "I=1000,J=1000");  // an AllToAll
  EXPECT_TRUE(contains(stepsOf(report.ways.at(0)), "AllToAll")) << stepsOf(report.ways.at(0));
  EXPECT_GT(report.ways.at(0).microseconds, 0);
  // The recursive ReduceScatter takes no uneven blocks, so another one runs than is preferred.
  const launcher::TemporaryFolder folder;
  const std::string file = folder.path().string() + "/tuning";
  std::ofstream(file) << R"([[prefer]]
collective = "reduce_scatter"
ranks = 4
hosts = 1
bytes = 65536
algorithm = "recursive")";
  const auto algorithm = [&](const std::string& sizes) {
    return reportOf("A[I,Jx] B[Jx,K] -> C[Ix,K]", {"--tuning", file}, "x=4", sizes)
        .ways.at(0)
        .steps.at(1)
        .algorithm;
  };
  EXPECT_EQ(algorithm("I=1024,J=4096,K=64"), "recursive");
  EXPECT_EQ(algorithm("I=1023,J=4096,K=64"), "ring");
}

TEST(ShardText, ShowsEverything) {
  const ShardReport report = reportOf("A[I,Jx] B[J,K] -> C[I,K]", {}, "x=4,y=2");
  const std::string text = shardText(report);
  EXPECT_TRUE(text.starts_with("A[I,Jx] B[J,K] -> C[I,K]\nfloat32 on 8 ranks, x=4,y=2\n")) << text;
  for (const std::string part :
       {"\nA[I,Jx]  64 x 64  16 KiB  64 x 16           4 KiB\n", "\nx  case 2  x splits J",
        "\n1  A[I,Jx] -> A[I,J]        AllGather over x, sends 12 KiB, ",
        "\n2  A[I,J] B[J,K] -> C[I,K]  each rank multiplies, 524 KFLOP\n",
        "computes 524 KFLOP of 524 KFLOP.\n", "  slice B x, multiply, AllReduce C x\n",
        "   C[I,K]{Ux} -> C[Ix,K]  ReduceScatter over x, sends 12 KiB, ", "\n\nWhy an AllReduce "})
    EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
  for (const std::string& line : lines(text)) EXPECT_LE(line.size(), 100U) << line;
  // One star, at the fastest.
  size_t stars = 0;
  for (const std::string& line : lines(text)) stars += line.starts_with("*");
  EXPECT_EQ(stars, 1U);
  const auto fastest = std::ranges::min_element(report.ways, {}, &ShardWay::microseconds);
  EXPECT_TRUE(std::regex_search(text, std::regex("\n\\*[^\n]*  " + stepsOf(*fastest) + "\n")))
      << text;
}

TEST(ShardJson, HasEverything) {
  const ShardReport report = reportOf("A[I,Jx] B[J,K]{Uy} -> C[I,K]", {}, "x=4,y=2");
  const std::string text = shardJson(report);
  EXPECT_EQ(lines(text).size(), 1U);
  const Json json = Json::parse(text);
  EXPECT_EQ(json["product"], "A[I,Jx] B[J,K]{Uy} -> C[I,K]");
  EXPECT_EQ(json["mesh"], "x=4,y=2");
  EXPECT_EQ(json["ranks"], 8);
  EXPECT_EQ(json["type"], "float32");
  EXPECT_EQ(json["flops"], 2.0 * 64 * 64 * 64);
  EXPECT_EQ(json["tensors"][0], (Json{{"tensor", "A[I,Jx]"},
                                      {"shape", {64, 64}},
                                      {"bytes", 16384},
                                      {"part", {64, 16}},
                                      {"part_bytes", 4096}}));
  EXPECT_EQ(json["cases"][0]["axis"], "x");
  EXPECT_EQ(json["cases"][0]["case"], 2);
  EXPECT_TRUE(json["cases"][1]["case"].is_null());
  ASSERT_EQ(json["ways"].size(), report.ways.size());
  for (size_t i = 0; i < report.ways.size(); ++i) {
    const Json& way = json["ways"][i];
    EXPECT_EQ(way["sent_bytes"], report.ways[i].sentBytes);
    EXPECT_EQ(way["us"], report.ways[i].microseconds);
    EXPECT_EQ(way["flops"], report.ways[i].flops);
    uint64_t sent = 0;
    int products = 0;
    for (const Json& step : way["steps"]) {
      sent += step.value("sent_bytes", uint64_t{0});
      products += step["what"] == "multiply" && step["flops"] == way["flops"];
      if (step["what"] == "slice") {
        EXPECT_TRUE(step["algorithm"].is_null());
      }
    }
    EXPECT_EQ(sent, way["sent_bytes"]);
    EXPECT_EQ(products, 1);
  }
}

TEST(ShardCommand, RefusesByName) {
  const auto refusal = [](const std::string& product, const std::string& mesh,
                          const std::string& sizes, std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"shard", product, "--mesh", mesh, "--sizes", sizes});
    const Result run = runTutti(options);
    EXPECT_EQ(run.exitCode, 2) << run.err;
    EXPECT_EQ(run.out, "");
    return run.err;
  };
  const std::string good = "A[I,Jx] B[Jx,K] -> C[I,K]";
  const auto names = [](const std::string& error, const std::string& words) {
    EXPECT_TRUE(error.starts_with("tutti shard: ") && contains(error, words)) << error;
  };
  names(refusal("A[I,Jq] B[J,K] -> C[I,K]", "x=4", kSizes),
        "character 6: there is no axis q in the mesh, but x");
  names(refusal(good, "x", kSizes), "--mesh \"x\": \"x\" is not like name=number");
  names(refusal(good, "x1=4", kSizes), "x1 is no axis, which is a small letter");
  names(refusal(good, "X=4", kSizes), "an axis is a small letter, not X");
  names(refusal(good, "x=0", kSizes), "x is \"0\"");
  names(refusal(good, "x=4,x=2", kSizes), "x is there twice");
  names(refusal(good, "x=4096,y=2", kSizes), "has more than 4096 ranks");
  names(refusal(good, "a=4096,b=4096,c=4096,d=4096,e=4096,f=4096", kSizes),
        "has more than 4096 ranks");
  names(refusal(good, "a=1,b=1,c=1,d=1,e=1,f=1,g=1,x=2", kSizes), "at most 7 axes, not 8");
  names(refusal(good, "x=4", "I=4,J=4"), "the size of K is missing");
  names(refusal(good, "x=4", "I=4,J=4,K=4,L=4"), "L is no index of the product");
  names(refusal(good, "x=4", "I=4,J=4,KK=4"), "KK is no index of the product");
  names(refusal(good, "x=4", "I=4,J=4,K=many"), "K is \"many\"");
  names(refusal(good, "x=4", "I=1099511627776,J=4,K=1099511627776"), "a tensor cannot be as large");
  names(refusal(good, "x=4", "I=67108864,J=4,K=1073741824"), "more than 2^53 elements");
  names(refusal(good, "x=4", kSizes, {"--type", "int3"}), "--type int3");
  names(refusal(good, "x=4", kSizes, {"--hosts", "2x4"}), "--hosts 2x4");
  names(refusal("A[Ixyz,J] B[J,Kw] -> C[I,K]", "x=2,y=2,z=2,w=2", kSizes),
        "at most 3 axes of the mesh, not 4");
  names(refusal("A[I] B[K] -> C[I,K]{Ux}", "x=4", "I=4,K=4"),
        "no product of A and B is partial as C is to be");
  EXPECT_EQ(runTutti({"shard"}).exitCode, 2);
}

/// Commands of the page and what it says they print.
std::vector<std::pair<std::string, std::string>> examples(const std::string& page) {
  const std::string fence = "```\n";
  std::vector<std::pair<std::string, std::string>> found;
  for (size_t at = 0; (at = page.find(fence + "$ ", at)) != std::string::npos;) {
    const size_t command = at + fence.size() + 2, output = page.find('\n', command) + 1;
    const size_t end = page.find(fence, output);
    found.emplace_back(page.substr(command, output - 1 - command),
                       page.substr(output, end - output));
    at = end + fence.size();
  }
  return found;
}

std::string pageText() {
  std::ifstream in(pagePath);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(ShardPage, ShowsWhatTheCommandPrints) {
  const auto found = examples(pageText());
  EXPECT_GE(found.size(), 5U) << pagePath;
  const std::string folder = std::filesystem::path(launcher::tuttiPath).parent_path();
  for (const auto& [command, output] : found) {
    const Result run =
        launcher::Command({"sh", "-c", "unset TUTTI_TUNING; PATH=" + folder + ":$PATH; " + command})
            .wait();
    EXPECT_EQ(run.exitCode, 0) << command << "\n" << run.err;
    EXPECT_EQ(run.out, output) << command;
  }
}

TEST(ShardPage, NamesEveryField) {
  const std::string page = pageText();
  const std::function<void(const Json&)> look = [&](const Json& json) {
    for (const auto& [key, value] : json.items()) {
      if (json.is_object()) {
        EXPECT_TRUE(contains(page, "`" + key + "`")) << key;
      }
      if (value.is_structured()) look(value);
    }
  };
  const Result run = runTutti(
      {"shard", "A[I,Jx] B[J,K] -> C[I,K]", "--mesh", "x=4", "--sizes", kSizes, "--json", "-"});
  ASSERT_EQ(run.exitCode, 0) << run.err;
  look(Json::parse(run.out));
}

}  // namespace
}  // namespace tutti::tools
