// A ring all reduce on four ranks in words and as a picture.

#include "src/plan/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>

#include "collectives/algorithms.h"
#include "src/plan/drawing.h"

namespace tutti::collectives {
namespace {

PlanSpec specOf(Algorithm algorithm, Collective collective, int ranks,
                Protocol protocol = Protocol::Simple) {
  return *registry().find(algorithm).spec({collective, protocol, ranks, 0, 1});
}

std::vector<Program> programsOf(const PlanSpec& spec) {
  std::vector<Program> programs;
  for (int rank = 0; rank < spec.ranks; ++rank) programs.push_back(build(spec, rank));
  return programs;
}

TEST(Text, RingAllReduceOnFourRanks) {
  const PlanSpec spec = specOf(Algorithm::Ring, Collective::AllReduce, 4);
  const std::string text = plan::toText(spec, programsOf(spec));
  EXPECT_EQ(
      text.substr(0, text.find("rank 1")),
      R"(all_reduce ring simple, 4 ranks, 1 channel, divisions 4, message chunks 1, slots 2, in place
rank 0
  lane 0, channel 0
    0: in 0 -> channel 1 chunk 0
    1: listed(channel 3 chunk 3, in 3) -> channel 1 chunk 3
    2: listed(channel 3 chunk 2, in 2) -> channel 1 chunk 2
    3: listed(channel 3 chunk 1, in 1) -> out 1, channel 1 chunk 1, completes
    4: channel 3 chunk 0 -> out 0, channel 1 chunk 0
    5: channel 3 chunk 3 -> out 3, channel 1 chunk 3
    6: channel 3 chunk 2 -> out 2
)");
  EXPECT_NE(text.find("rank 3\n  lane 0, channel 0\n    0: in 3 -> channel 0 chunk 3\n"),
            std::string::npos);
}

TEST(Text, DrawsARecursiveAllReduce) {
  const PlanSpec spec = specOf(Algorithm::Recursive, Collective::AllReduce, 3);
  EXPECT_EQ(
      plan::drawText(spec, programsOf(spec)),
      R"(all_reduce recursive simple, 3 ranks, 1 channel, divisions 2, message chunks 1, slots 1, in place, canonical order
         0     1     2
step 1   o----->     |   1
         <-----o     |   0
         <-----------o   0
         |     <-----o   1
step 2   o----->     |   0
         o----------->   0
         <-----o     |   1
         |     o----->   1
)");
}

// Results wait for sums in another lane: they are drawn after them.
TEST(Text, DrawsAHierarchicalAllReduce) {
  const PlanSpec spec = *registry()
                             .find(Algorithm::Hierarchical)
                             .spec({Collective::AllReduce, Protocol::Simple, 3, 0, 1, {0, 0, 1}});
  const std::string text = plan::drawText(spec, programsOf(spec));
  EXPECT_EQ(text.substr(text.find('\n') + 1),
            R"(         0     1     2
step 1   <-----o     |   0
         <-----o     |   1
         <-----------o   0
step 2   o----->     |   0
         o----------->   1
         o----------->   0
step 3   <-----------o   1
step 4   o----->     |   1
)");
}

TEST(Text, DrawsSignalsAndMappedBuffers) {
  const PlanSpec spec = specOf(Algorithm::OneShot, Collective::AllGather, 2, Protocol::Mapped);
  EXPECT_EQ(
      plan::drawText(spec, programsOf(spec)),
      R"(all_gather one_shot mapped, 2 ranks, 1 channel, divisions 1, message chunks 0, slots 1, maps out, in place, uneven blocks
         0     1
step 1   o----->   mapped 0
         <-----o   mapped 1
         o----->   signal
         <-----o   signal
)");
}

TEST(Text, SvgHasAnArrowForEachMessageAndALineForEachRank) {
  const PlanSpec spec = specOf(Algorithm::Ring, Collective::AllReduce, 4);
  const std::string svg = plan::drawSvg(spec, programsOf(spec));
  const auto count = [&](const std::string& part) {
    size_t found = 0;
    for (size_t at = svg.find(part); at != std::string::npos; at = svg.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("marker-end"), 24U);  // 4 ranks send 2(P-1) messages each
  EXPECT_EQ(count("<line"), 24U + 4U);
  EXPECT_EQ(count("<text"), count("</text>"));
  EXPECT_EQ(svg.rfind("</svg>\n"), svg.size() - 7);
}

/// Ends of an arrow, from left to right, by the height at which it lies.
using Arrows = std::map<int, std::vector<std::pair<int, int>>>;

Arrows arrowsOf(const std::string& svg) {
  const std::regex arrow(
      "<line x1=\"(\\d+)\" y1=\"(\\d+)\" x2=\"(\\d+)\" y2=\"(\\d+)\"[^>]*marker-end");
  Arrows arrows;
  for (std::sregex_iterator at(svg.begin(), svg.end(), arrow), end; at != end; ++at) {
    EXPECT_EQ((*at)[2], (*at)[4]) << "not level: " << at->str();
    const int x1 = std::stoi((*at)[1]), x2 = std::stoi((*at)[3]);
    EXPECT_NE(x1, x2);
    arrows[std::stoi((*at)[2])].emplace_back(std::min(x1, x2), std::max(x1, x2));
  }
  return arrows;
}

TEST(Text, SvgHasNoArrowUponAnother) {
  for (const Algorithm algorithm : {Algorithm::Ring, Algorithm::TwoShot, Algorithm::DoubleTree}) {
    const PlanSpec spec = specOf(algorithm, Collective::AllReduce, 6);
    const auto programs = programsOf(spec);
    const std::string svg = plan::drawSvg(spec, programs);
    Arrows arrows = arrowsOf(svg);
    size_t count = 0, shared = 0;
    for (auto& [y, line] : arrows) {
      count += line.size();
      shared += line.size() > 1;
      std::ranges::sort(line);
      for (size_t i = 1; i < line.size(); ++i) EXPECT_LE(line[i - 1].second, line[i].first) << y;
    }
    EXPECT_EQ(count, plan::movementsOf(spec, programs).size());
    EXPECT_GT(shared, 0u) << "arrows beside each other share a line";
    EXPECT_EQ(svg.find(">step 0<"), std::string::npos);
    const int steps = plan::movementsOf(spec, programs).back().depth;
    for (int step = 1; step <= steps; ++step)
      EXPECT_NE(svg.find(">step " + std::to_string(step) + "<"), std::string::npos) << step;
  }
}

TEST(Text, HostsAreInWords) {
  const PlanSpec spec =
      *registry()
           .find(Algorithm::Hierarchical)
           .spec({Collective::AllReduce, Protocol::Simple, 4, 0, 1, {0, 0, 0, 1}});
  EXPECT_EQ(
      spec.describe(),
      "all_reduce hierarchical simple, 4 ranks, hosts 3,1, 2 channels, divisions 2, message chunks "
      "1, slots 1, in place");
}

TEST(Text, HashesDifferAndDescribeDoes) {
  const PlanSpec spec = specOf(Algorithm::Ring, Collective::AllReduce, 4);
  EXPECT_EQ(spec.hash(), PlanSpec(spec).hash());
  std::vector<PlanSpec> others(16, spec);
  others[0].collective = Collective::Reduce;
  others[1].algorithm = Algorithm::OneShot;
  others[2].protocol = Protocol::Mapped;
  others[3].ranks = 5;
  others[4].root = 1;
  others[5].channels = 2;
  others[6].divisions = 8;
  others[7].scratchBlocks = 1;
  others[8].messageChunks = 2;
  others[9].minSlots = 3;
  others[10].mapped.in = true;
  others[11].inPlaceSafe = false;
  others[12].hosts = {0, 0, 1, 1};
  others[13].hosts = {0, 1, 0, 1};
  others[14].hosts = {0, 1, 2, 0};
  others[15].programsHash = 1;
  for (size_t i = 0; i < others.size(); ++i) {
    EXPECT_NE(others[i].hash(), spec.hash()) << i;
    for (size_t j = 0; j < i; ++j) EXPECT_NE(others[i].hash(), others[j].hash()) << i << j;
  }
}

}  // namespace
}  // namespace tutti::collectives
