// What `peers` makes of its blocks: paired ratios, tables, what is slower, JSON and the picture.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/collectives/peers/report.h"
#include "bench/collectives/peers/row.h"
#include "include/tutti/error.h"

namespace tutti::bench {
namespace {

Series series(const std::string& contender, std::vector<double> us, size_t firstPair = 0) {
  return {.contender = contender, .us = std::move(us), .firstPair = firstPair};
}

/// Tutti has 4 us, then 2 us beside mpich; ordinary memory 1 us. gloo has failed.
Contest contest() {
  Row row{.what = {WORKER_ALL_GATHER, 2, 4096}, .flagNs = 61.5, .limitUs = 0.75};
  std::vector<double> ours(6, 4.0);
  ours.insert(ours.end(), 6, 2.0);
  row.series = {series("allocate", ours),
                series("ordinary", std::vector<double>(12, 1.0)),
                series("openmpi", {5, 6, 7, 8, 6, 6}),
                series("mpich", std::vector<double>(6, 1.5), 6),
                {.contender = "gloo", .error = "gloo gave a wrong result"}};
  row.series[1].predictedUs = 0.9;
  Row barrier{.what = {WORKER_BARRIER, 2, 0}, .flagNs = 60};
  barrier.series = {series("allocate", std::vector<double>(6, 0.5)),
                    series("openmpi", {0.4, 0.4, 0.4, 0.4, 0.4, 0.51})};
  return {.settings = {.version = "1.2.3",
                       .commit = "abc",
                       .machine = "2 cores",
                       .blocks = 6,
                       .calls = 10,
                       .memory = {"allocate", "ordinary"},
                       .peers = {"openmpi", "oneccl"}},
          .date = "2026-01-02",
          .clockNs = 21,
          .versions = {{"openmpi", "Open MPI 5"}},
          .absent = {{"oneccl", "it does not start"}},
          .rows = {row, barrier}};
}

TEST(PeersResults, RatiosAreOfNeighboursInTime) {
  const Row row = contest().rows[0];
  const auto openMpi = row.ratio(*row.find("openmpi"), "allocate");
  ASSERT_TRUE(openMpi);
  EXPECT_DOUBLE_EQ(openMpi->median, 1.5);
  EXPECT_DOUBLE_EQ(openMpi->low, 1.25);
  EXPECT_DOUBLE_EQ(openMpi->high, 2);
  // Beside the blocks in which Tutti had 2 us, not the first ones.
  EXPECT_DOUBLE_EQ(row.ratio(*row.find("mpich"), "allocate")->median, 0.75);
  EXPECT_FALSE(row.ratio(*row.find("gloo"), "allocate"));
  EXPECT_FALSE(contest().rows[1].ratio(*row.find("openmpi"), "ordinary"));
  EXPECT_EQ(row.bestPeer("allocate")->contender, "mpich");
}

TEST(PeersResults, WhatIsSlowerIsOutsideTheInterval) {
  const std::string slower = slowerThanAPeer(contest());
  EXPECT_EQ(slower,
            "- all_gather, 2 ranks, 4 KiB, allocate: 4.00 us, mpich 1.50 us: 0.75 [0.75, 0.75]\n");
  Contest faster = contest();
  faster.rows[1].series[1].us.back() = 0.4;  // now the whole interval is below 1
  EXPECT_NE(slowerThanAPeer(faster).find("- barrier, 2 ranks, allocate: 0.50 us, openmpi 0.40 us"),
            std::string::npos);
  Contest two = contest();  // of two that are faster, the one with the least ratio
  two.rows[0].series.push_back(series("debian-mpich", std::vector<double>(6, 1.0), 6));
  EXPECT_NE(slowerThanAPeer(two).find("debian-mpich 1.00 us: 0.50 [0.50, 0.50]\n"),
            std::string::npos);
  EXPECT_EQ(withoutResult(contest()),
            "- all_gather, 2 ranks, 4 KiB, gloo: gloo gave a wrong result\n");
}

TEST(PeersResults, TablesHaveEachContender) {
  const std::string text = tables(contest(), contenders({}));
  for (const char* part :
       {"Tutti 1.2.3, commit abc; 2 cores", "- openmpi: Open MPI 5\n",
        "- oneccl is not measured: it does not start\n", "### all_gather, 2 ranks\n",
        "### barrier, 2 ranks\n", "Debian", "| 4,096 |", "| none |", "Predicted", "| 1.00 | 0.90 |",
        "0.75 [0.75, 0.75] mpich"})
    EXPECT_EQ(text.find(part) != std::string::npos, std::string(part) != "Debian") << part << text;
}

TEST(PeersResults, JsonComesBackAsItWas) {
  const std::string text = json(contest()).dump();
  const Contest again = contestOf("a file", text);
  EXPECT_EQ(json(again).dump(), text);
  EXPECT_TRUE(again.settings == contest().settings);
  EXPECT_TRUE(again.find({WORKER_ALL_GATHER, 2, 4096}));
  EXPECT_FALSE(again.find({WORKER_ALL_GATHER, 4, 4096}));
  EXPECT_EQ(again.rows[0].find("ordinary")->predictedUs, 0.9);
  EXPECT_FALSE(again.rows[0].find("allocate")->predictedUs);
  EXPECT_EQ(nlohmann::json::parse(text)["rows"][0]["contenders"][3]["ratio"]["allocate"]["median"],
            0.75);
}

TEST(PeersResults, JsonOfOthersIsRefused) {
  const auto refusal = [](const std::string& from, const std::string& to) {
    std::string text = json(contest()).dump();
    const size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    text.replace(at, from.size(), to);
    try {
      contestOf("some.json", text);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::InvalidArgument);
      return std::string(e.what());
    }
    return std::string("taken");
  };
  for (const auto& [from, to, why] : std::vector<std::array<std::string, 3>>{
           {"\"settings\"", "\"setting\"", "settings is missing"},
           {"\"all_gather\"", "\"scan\"", "no such collective"},
           {"[\"openmpi\",", "[7,", "peers is no list of names"},
           {"\"ranks\":2", "\"ranks\":1", "ranks is 1"},
           {"\"bytes\":4096", "\"bytes\":-1", "bytes is -1"},
           {"[5.0,", "[\"x\",", "blocks_us is no number"},
           {"[5.0,6.0,7.0,8.0,6.0,6.0]", "[]", "blocks_us is empty"},
           {"{\"date\"", "{date", "is no JSON"}}) {
    const std::string said = refusal(from, to);
    EXPECT_NE(said.find(why), said.npos) << said;
    EXPECT_NE(said.find("some.json"), said.npos) << said;
  }
}

TEST(PeersResults, ThePictureHasAPanelForEachCollective) {
  const std::string svg = picture(contest());
  for (const char* part : {"viewBox=\"0 0 ", ">all_gather<", ">barrier<", ">2 ranks<", "</svg>"})
    EXPECT_NE(svg.find(part), svg.npos) << part;
  EXPECT_EQ(svg.find(">reduce<"), svg.npos);
}

}  // namespace
}  // namespace tutti::bench
