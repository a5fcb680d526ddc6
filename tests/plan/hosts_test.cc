#include "src/plan/hosts.h"

#include <gtest/gtest.h>

#include "src/plan/checker.h"
#include "tests/plan/handmade.h"

namespace tutti::plan {
namespace {

using Hosts = std::vector<int>;

TEST(Hosts, AreNumberedInTheOrderOfTheirFirstRanks) {
  EXPECT_EQ(hostsInOrder(Hosts{7, 7, 3, 7, 0, 3}), (Hosts{0, 0, 1, 0, 2, 1}));
  EXPECT_EQ(hostsInOrder(Hosts{0, 1, 1}), (Hosts{0, 1, 1}));
}

TEST(Hosts, OfOneAreNone) {
  EXPECT_EQ(hostsInOrder(Hosts{}), Hosts{});
  EXPECT_EQ(hostsInOrder(Hosts{4}), Hosts{});
  EXPECT_EQ(hostsInOrder(Hosts{4, 4, 4}), Hosts{});
}

TEST(Hosts, HaveRanksInAscendingOrder) {
  EXPECT_EQ(ranksByHost(Hosts{0, 1, 0, 2, 1}, 5), (std::vector<Hosts>{{0, 2}, {1, 4}, {3}}));
  EXPECT_EQ(ranksByHost(Hosts{}, 3), (std::vector<Hosts>{{0, 1, 2}}));
}

TEST(Hosts, InWords) {
  EXPECT_EQ(hostsToText(Hosts{0, 0, 0, 1, 1, 1}), "2x3");
  EXPECT_EQ(hostsToText(Hosts{0, 0, 0, 1, 2, 2, 2, 2}), "3,1,4");
  EXPECT_EQ(hostsToText(Hosts{0, 1, 0, 1}), "0 1 0 1");
}

TEST(Hosts, OfASpecAreInOrder) {
  const auto [good, programs] = test::addAside();
  const auto refusal = [&, programs = programs](Hosts hosts) {
    PlanSpec spec = good;
    spec.hosts = std::move(hosts);
    const CheckResult result = PlanChecker(spec, programs).check();
    return result.error ? result.error->message : "";
  };
  EXPECT_EQ(refusal({0, 1}), "");
  EXPECT_NE(refusal({0, 1, 1}).find("hosts of 3 ranks for 2 ranks"), std::string::npos);
  for (const Hosts& wrong : {Hosts{0, 0}, Hosts{1, 0}, Hosts{0, 2}, Hosts{0, -1}})
    EXPECT_NE(refusal(wrong).find("numbered in the order of their first ranks"), std::string::npos);
}

TEST(Hosts, WhatCrossesTheirLinksIsMeasured) {
  auto [spec, programs] = test::addAside();
  EXPECT_EQ(PlanChecker(spec, programs).check().measured.hostBlocks, 0);
  spec.hosts = {0, 1};
  EXPECT_EQ(PlanChecker(spec, programs).check().measured.hostBlocks, 1);
}

}  // namespace
}  // namespace tutti::plan
