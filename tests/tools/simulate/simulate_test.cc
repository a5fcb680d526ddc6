// `tutti simulate` in parts: its command line, the topology files and what is wrong in them, and
// the topologies that come with it.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include <tutti/error.h>

#include "collectives/simulate.h"
#include "src/tools/common/names.h"
#include "src/tools/simulate/cluster_file.h"
#include "src/tools/simulate/simulate.h"
#include "tests/support/outcome.h"
#include "tests/support/temporary_folder.h"

namespace tutti::tools {
namespace {

using collectives::AlgorithmInfo;
using collectives::Simulation;
using Json = nlohmann::json;
using topology::Cluster;

SimulateOptions parse(std::vector<const char*> words) {
  words.insert(words.begin(), "simulate");
  return std::get<SimulateOptions>(parseSimulate(static_cast<int>(words.size()), words.data()));
}

using tests::refusalOf;

TEST(SimulateOptions, TakeListsAnywhere) {
  const SimulateOptions o =
      parse({"--size", "4K,1M", "--ranks", "8,1024", "reduce_scatter", "--topology", "a100-8",
             "--algo", "ring", "--type", "float64", "--channels", "2", "--json", "out.jsonl"});
  EXPECT_EQ(o.collective, plan::Collective::ReduceScatter);
  EXPECT_EQ(o.sizes, (std::vector<uint64_t>{4096, 1 << 20}));
  EXPECT_EQ(o.ranks, (std::vector<int>{8, 1024}));
  EXPECT_EQ(o.topology, "a100-8");
  EXPECT_EQ(o.algorithm, "ring");
  EXPECT_EQ(o.type, DataType::Float64);
  EXPECT_EQ(o.channels, 2);
  EXPECT_EQ(o.jsonFile, "out.jsonl");
}

TEST(SimulateOptions, HaveDefaults) {
  const SimulateOptions o = parse({"all_reduce", "-n", "8", "--topology", "x", "--algo", "all"});
  EXPECT_EQ(o.sizes, std::vector<uint64_t>{1 << 30});
  EXPECT_EQ(o.algorithm, "");
  EXPECT_EQ(o.type, DataType::Float32);
  EXPECT_EQ(o.channels, 1);
  EXPECT_EQ(parse({"barrier", "-n", "8", "--topology", "x"}).sizes, std::vector<uint64_t>{0});
}

TEST(SimulateOptions, AreRefusedByName) {
  const auto refusal = [](std::vector<const char*> words) {
    words.insert(words.end(), {"-n", "8", "--topology", "x"});
    return refusalOf([&] { parse(words); });
  };
  EXPECT_EQ(refusal({"all_produce"}),
            "there is no collective 'all_produce': " + listOfNames(plan::collectiveNames()) +
                "; did you mean all_reduce?");
  EXPECT_EQ(refusal({"scan", "--size", "1K,x"}),
            "--size x is not a size: a whole number of bytes, or a number with K, M or G");
  EXPECT_EQ(refusal({"scan", "--size", "1K,,2K"}),
            "--size \"1K,,2K\": between its commas is nothing");
  EXPECT_EQ(refusal({"scan", "--size", ""}), "--size names no size");
  EXPECT_EQ(refusal({"scan", "--size", "2000000G"}),
            "--size 2147483648000000 is more than 1125899906842624 bytes");
  EXPECT_EQ(
      refusal({"scan", "--type", "float31"}),
      "--type float31 is no element type: " + listOfNames(typeNames()) + "; did you mean float32?");
  const std::string simulated =
      "ring, double_tree, recursive, one_shot, two_shot, pairwise or hierarchical";
  for (const std::string name : {"mapped", "attached"})
    EXPECT_EQ(refusal({"scan", "--algo", name.c_str()}),
              "--algo " + name + " is not simulated: take " + simulated + ", or all");
  EXPECT_EQ(refusal({"scan", "--algo", "ting"}),
            "--algo ting does not exist: " + simulated + "; did you mean ring?");
  const auto refusalOfRanks = [](const char* ranks) {
    return refusalOf([&] { parse({"scan", "--topology", "x", "-n", ranks}); });
  };
  EXPECT_EQ(refusalOfRanks("0"), "--ranks 0 is not a whole number from 1 to 1000000");
  EXPECT_EQ(refusalOfRanks("8,1000001"), "--ranks 1000001 is not a whole number from 1 to 1000000");
  EXPECT_EQ(refusalOfRanks("8,x"), "--ranks x is not a whole number from 1 to 1000000");
  for (const char* list : {"8,,", "8,", ",8", "8,,16"})
    EXPECT_EQ(refusalOfRanks(list),
              std::string("--ranks \"") + list + "\": between its commas is nothing");
  EXPECT_EQ(refusalOfRanks(""), "--ranks names no number");
  for (const std::vector<const char*>& wrong :
       {std::vector<const char*>{"simulate", "scan", "--topology", "x"},
        {"simulate", "scan", "-n", "8"},
        {"simulate", "scan", "-n", "8", "--topology", "x", "--channels", "33"}})
    EXPECT_EQ(std::get<int>(parseSimulate(static_cast<int>(wrong.size()), wrong.data())), 2);
}

Json whole() {
  return {{"comment", {"one line", "another"}},
          {"ranks_per_host", 4},
          {"inside", {{"microseconds", 1.5}, {"GBps", 300}, {"shared_GBps", 500}}},
          {"nics", {{"count", 2}, {"microseconds", 5}, {"GBps", 12.5}}},
          {"pods", {{"hosts", 16}, {"microseconds", 0}, {"oversubscription", 2.5}}},
          {"rank", {{"step_microseconds", 0.25}, {"copy_GBps", 1000}, {"reduce_GBps", 1200}}},
          {"message_bytes", 65536}};
}

TEST(ClusterFile, SaysEverything) {
  const Cluster cluster = parseCluster("mine", whole().dump());
  EXPECT_EQ(cluster.name, "mine");
  EXPECT_EQ(cluster.ranksPerHost, 4);
  EXPECT_EQ(cluster.inside.microseconds, 1.5);
  EXPECT_EQ(cluster.inside.gigabytesPerSecond, 300);
  EXPECT_EQ(cluster.inside.sharedGigabytesPerSecond, 500);
  EXPECT_EQ(cluster.nics.count, 2);
  EXPECT_EQ(cluster.nics.microseconds, 5);
  EXPECT_EQ(cluster.nics.gigabytesPerSecond, 12.5);
  EXPECT_EQ(cluster.pods.hosts, 16);
  EXPECT_EQ(cluster.pods.microseconds, 0);
  EXPECT_EQ(cluster.pods.oversubscription, 2.5);
  EXPECT_EQ(cluster.uplinkGigabytesPerSecond(), 16 * 2 * 12.5 / 2.5);
  EXPECT_EQ(cluster.work.stepMicroseconds, 0.25);
  EXPECT_EQ(cluster.work.copyGigabytesPerSecond, 1000);
  EXPECT_EQ(cluster.work.reduceGigabytesPerSecond, 1200);
  EXPECT_EQ(cluster.messageBytes, 65536U);
  EXPECT_EQ(cluster.describe(),
            "mine: hosts of 4 ranks, 300 GB/s each inside over a bus of 500 GB/s, 2 NICs of 12.5 "
            "GB/s; pods of 16 hosts, oversubscribed 2.5 to 1");
}

TEST(ClusterFile, MayLeaveOutBusPodsAndComment) {
  Json json = whole();
  json.erase("comment");
  json.erase("pods");
  json["inside"].erase("shared_GBps");
  const Cluster cluster = parseCluster("mine", json.dump());
  EXPECT_EQ(cluster.inside.sharedGigabytesPerSecond, 0);
  EXPECT_EQ(cluster.pods.hosts, 0);
  EXPECT_EQ(cluster.ranksTogether(), 4);
}

std::string refusalOfJson(const Json& json) {
  return refusalOf([&] { parseCluster("f", json.dump()); });
}

TEST(ClusterFile, IsRefusedWithoutAKey) {
  EXPECT_EQ(refusalOfJson(whole()), "accepted");
  for (const char* key : {"ranks_per_host", "inside", "nics", "rank", "message_bytes"}) {
    Json json = whole();
    json.erase(key);
    EXPECT_EQ(refusalOfJson(json), std::string("f: there is no ") + key);
  }
  const Json accepted = whole();
  for (const char* object : {"inside", "nics", "pods", "rank"})
    for (const auto& [key, value] : accepted[object].items()) {
      if (key == "shared_GBps") continue;
      Json json = whole();
      json[object].erase(key);
      EXPECT_EQ(refusalOfJson(json), "f: there is no " + std::string(object) + "." + key);
    }
}

TEST(ClusterFile, IsRefusedWithAnUnknownKey) {
  Json json = whole();
  json["ranks"] = 8;
  EXPECT_EQ(refusalOfJson(json), "f: there is no key ranks");
  for (const char* object : {"inside", "nics", "pods", "rank"}) {
    Json more = whole();
    more[object]["latency"] = 8;
    EXPECT_EQ(refusalOfJson(more), "f: there is no key " + std::string(object) + ".latency");
  }
}

TEST(ClusterFile, IsRefusedWithValuesThatNobodyHas) {
  const auto refusal = [](const char* pointer, const Json& value) {
    Json json = whole();
    json[Json::json_pointer(pointer)] = value;
    return refusalOfJson(json);
  };
  EXPECT_EQ(refusal("/ranks_per_host", 0), "f: ranks_per_host 0 is not between 1 and 1024");
  EXPECT_EQ(refusal("/ranks_per_host", 4.5), "f: ranks_per_host is no whole number");
  EXPECT_EQ(refusal("/ranks_per_host", 1e30), "f: ranks_per_host is no whole number");
  EXPECT_EQ(refusal("/ranks_per_host", UINT64_MAX),
            "f: ranks_per_host 1.84467e+19 is not between 1 and 1024");
  EXPECT_EQ(refusal("/nics/count", 3), "f: nics.count 3 does not divide the 4 ranks of a host");
  EXPECT_EQ(refusal("/nics/count", 8), "f: nics.count 8 is not between 1 and 4");
  EXPECT_EQ(refusal("/nics/GBps", "fast"), "f: nics.GBps is no number");
  EXPECT_EQ(refusal("/nics/GBps", 0), "f: nics.GBps 0 is not between 0.001 and 1e+06");
  EXPECT_EQ(refusal("/nics/microseconds", -1),
            "f: nics.microseconds -1 is not between 0.001 and 1e+06");
  EXPECT_EQ(refusal("/inside/microseconds", 0),
            "f: inside.microseconds 0 is not between 0.001 and 1e+06");
  EXPECT_EQ(refusal("/inside/shared_GBps", nullptr), "f: inside.shared_GBps is no number");
  EXPECT_EQ(refusal("/inside", 4), "f: inside is no object");
  EXPECT_EQ(refusal("/pods/hosts", 0), "f: pods.hosts 0 is not between 1 and 4096");
  EXPECT_EQ(refusal("/pods/oversubscription", 0),
            "f: pods.oversubscription 0 is not between 0.001 and 1000");
  EXPECT_EQ(refusal("/rank/step_microseconds", 0),
            "f: rank.step_microseconds 0 is not between 0.001 and 1e+06");
  EXPECT_EQ(refusal("/message_bytes", 63), "f: message_bytes 63 is not between 64 and 4.29497e+09");
  EXPECT_EQ(refusal("/comment", 7), "f: comment is neither a text nor a list of texts");
  EXPECT_EQ(refusal("/comment", {"a", 7}), "f: comment is neither a text nor a list of texts");
}

TEST(ClusterFile, IsRefusedWhereItIsNoJson) {
  const auto refusal = [](const std::string& text) {
    return refusalOf([&] { parseCluster("f", text); });
  };
  EXPECT_TRUE(refusal("").starts_with("f is no JSON: "));
  EXPECT_TRUE(refusal("{\"nics\": {").starts_with("f is no JSON: "));
  EXPECT_TRUE(refusal(whole().dump() + "}").starts_with("f is no JSON: "));
  EXPECT_TRUE(refusal("{\"nics\": NaN}").starts_with("f is no JSON: "));
  EXPECT_EQ(refusal("[]"), "f is no JSON object");
  EXPECT_EQ(refusal("{\"ranks_per_host\": 4, \"ranks_per_host\": 8}"),
            "f: ranks_per_host is there twice");
  EXPECT_EQ(refusal("{\"nics\": {\"count\": 4, \"count\": 8}}"), "f: count is there twice");
  EXPECT_NE(refusal(std::string(60000, '[')), "accepted");
}

class ClusterFiles : public testing::Test {
 protected:
  ClusterFiles() {
    std::ofstream(folder_ / "small.json") << whole();
    std::ofstream(folder_ / "bad.json") << "{";
    std::ofstream(folder_ / "large.json") << whole() << std::string(1 << 16, ' ');
  }
  std::string refusal(const std::string& name) const {
    return refusalOf([&] { readCluster(name, folder_); });
  }
  const tests::TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
};

TEST_F(ClusterFiles, AreFoundByNameAndByPath) {
  EXPECT_EQ(readCluster("small", folder_).name, "small");
  EXPECT_EQ(readCluster(folder_ / "small.json", "nowhere").name, "small");
}

TEST_F(ClusterFiles, AreRefusedByName) {
  const std::string neither = " is neither a file nor one of ";
  EXPECT_EQ(refusal("tiny"),
            "--topology tiny" + neither + folder_.string() + ": bad, large, small");
  EXPECT_EQ(refusal("smal"), "--topology smal" + neither + folder_.string() +
                                 ": bad, large, small; did you mean small?");
  EXPECT_EQ(refusal("../" + folder_.filename().string() + "/small"),
            "--topology ../" + folder_.filename().string() + "/small" + neither + folder_.string() +
                ": bad, large, small");
  EXPECT_EQ(refusalOf([] { readCluster("tiny", "nowhere"); }),
            "--topology tiny is neither a file nor one of nowhere, where there is none");
  const std::string bad = folder_ / "bad.json";
  EXPECT_TRUE(refusal(bad).starts_with(bad + " is no JSON: ")) << refusal(bad);
  EXPECT_EQ(refusal("large"),
            "--topology " + (folder_ / "large.json").string() + " has more than 65536 bytes");
}

/// The topologies that come with the program.
class Shipped : public testing::TestWithParam<const char*> {
 protected:
  const Cluster cluster_ = readCluster(GetParam(), TUTTI_SOURCE "/src/tools/topologies");
};

TEST_P(Shipped, IsOfHostsOfEight) {
  EXPECT_EQ(cluster_.name, GetParam());
  EXPECT_EQ(cluster_.ranksPerHost, 8);
}

TEST_P(Shipped, WalksClassesAsAllRanks) {
  for (const int ranks : {64, 256})
    for (const AlgorithmInfo& info : collectives::registry().algorithms())
      for (const auto collective : {plan::Collective::AllReduce, plan::Collective::AllGather,
                                    plan::Collective::ReduceScatter, plan::Collective::AllToAll}) {
        const auto spec = collectives::specOn(cluster_, info, collective, ranks, 1);
        if (!spec) continue;
        const Simulation classes(info, *spec, cluster_);
        const Simulation all(info, *spec, cluster_, Simulation::Walked::AllRanks);
        if (classes.ranksWalked() == all.ranksWalked()) continue;
        const double exact = all.microseconds(1 << 20);
        EXPECT_NEAR(classes.microseconds(1 << 20), exact, 1e-9 * exact) << spec->describe();
      }
}
INSTANTIATE_TEST_SUITE_P(Files, Shipped,
                         testing::Values("a100-8", "h100-8", "h100-8-one-nic", "h100-8-pods"));

}  // namespace
}  // namespace tutti::tools
