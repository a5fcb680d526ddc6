// What `tutti topo` writes about a machine that nobody here has: text, JSON and a picture; and its
// command line.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "src/base/svg.h"
#include "src/tools/common/page.h"
#include "src/tools/common/units.h"
#include "src/tools/topo/pci_tree.h"
#include "src/tools/topo/topo.h"
#include "src/tools/topo/topo_report.h"
#include "tests/support/test_main.h"
#include "tests/topology/big_machine.h"

namespace tutti::tools {
namespace {

using Json = nlohmann::json;
using topology::bigMachine;
using topology::Machine;

std::string picturePath;  // of the big machine, in the docs
bool draws = false;
const tests::Arguments commandLine{{"PICTURE", &picturePath}, {"[draw]", &draws}};
const tests::Runner runner([] {
  if (draws) std::ofstream(picturePath) << topoSvg(topology::bigMachine(), 8);
  return RUN_ALL_TESTS();
});

std::vector<std::string> linesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// Its first GPUs have several NVLinks that are up, one, and none; of the others nobody knows.
Machine withNvLinks() {
  Machine m = bigMachine();
  m.gpus[0].nvLinks = 18;
  m.gpus[1].nvLinks = 1;
  m.gpus[2].nvLinks = 0;
  return m;
}

bool has(const std::vector<std::string>& lines, const std::string& line) {
  return std::ranges::count(lines, line) == 1;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

TEST(TopoText, SaysWhatThereIs) {
  const auto lines = linesOf(topoText(bigMachine(), 8));
  EXPECT_EQ(lines[0],
            "example: 2 packages, 2 NUMA nodes, 8 cores; this process may use 8 cores (PUs 0-15)");
  for (
      const char* line : {
          "package 1     Example 9000, PUs 8-15",
          "NUMA node 0   512 GiB, PUs 0-7",
          "caches        2 L3 of 64 MiB",
          "mlx5_3        PCI 0001:08:00.0, NUMA node 0",
          "eth0          up, 192.0.2.7, 25 Gbit/s, PCI 0000:20:00.0, NUMA node 0",
          "              mlx5_0:1  mlx5_1:1  mlx5_2:1  mlx5_3:1  mlx5_4:1  mlx5_5:1  mlx5_6:1  "
          "mlx5_7:1",
          "GPU 3         Example GPU, 80 GiB, compute capability 9.0, PCI 0001:07:00.0, NUMA node "
          "0, reaches",
          "              NVLinks unknown, closest NIC mlx5_3:1 (PIX), "
          "GPU-6768696a-6b6c-6d6e-6f70-717273747576",
          "GPU 1         PXB       PIX       NODE      NODE      SYS       SYS       SYS       SYS",
          "              GPU 0     GPU 1     GPU 2     GPU 3     GPU 4     GPU 5     GPU 6     GPU "
          "7",
          "GPU 2         NODE      NODE      -         PXB       SYS       SYS       SYS       SYS",
          "GPU 2         NODE",
          "shm           the 8 ranks of this host (28 pairs), by shared memory",
          "p2p           the 8 ranks of this host (28 pairs), 12 by peer access, NVLinks unknown "
          "(GPUs 0-3;",
          "              GPUs 4-7), 16 through memory of the host, as neither can address the "
          "other's memory",
          "              (GPUs 0-3 with GPUs 4-7)",
          "rank 6        GPU 6, PUs 8-15: mlx5_6:1 (PIX)",
      })
    EXPECT_TRUE(has(lines, line)) << line;
  // To GPUs and to the NICs beside them.
  EXPECT_EQ(std::ranges::count(lines,
                               "NUMA 1        SYS       SYS       SYS       SYS       PHB  "
                               "     PHB       PHB       PHB"),
            2);
}

TEST(TopoText, HasAHundredColumnsAndNoSpacesAtLineEnds) {
  Machine m = bigMachine();
  m.problems = {std::string(400, 'x') + " is one word", "many " + std::string(99, 'y') + " words"};
  for (int i = 0; i < 40; ++i)
    m.interfaces.push_back(
        {.name = "eth" + std::to_string(100 + i), .addresses = {"10.0.0.1"}, .up = true});
  for (const std::string& line : linesOf(topoText(m, 64))) {
    if (line.find("xxx") == std::string::npos && line.find("yyy") == std::string::npos) {
      EXPECT_LE(line.size(), 100u) << line;
    }
    EXPECT_FALSE(line.ends_with(" ")) << line;
  }
}

TEST(TopoText, GivesReasonsForWhatIsNot) {
  Machine m;
  m.host = "bare";
  m.libraries = {{.name = "libibverbs", .missing = "libibverbs.so.1: no such file"},
                 {.name = "CUDA driver", .missing = "libcuda.so.1: no such file"}};
  m.problems = {"hwloc: hwloc_topology_load: broken"};
  const auto lines = linesOf(topoText(m, 1));
  for (const char* line : {
           "bare: 0 packages, 0 NUMA nodes, 0 cores; this process may use 0 cores (PUs )",
           "NIC           none is seen: libibverbs.so.1: no such file",
           "GPU           none is seen, no CUDA driver: libcuda.so.1: no such file",
           "libraries     no libibverbs, no CUDA driver",
           "not read      hwloc: hwloc_topology_load: broken",
           "shm           nobody: one rank has no other on this host",
           "p2p           nobody: no CUDA driver",
           "ucx           nobody: UCX is not installed",
       })
    EXPECT_TRUE(has(lines, line)) << line;
}

TEST(TopoText, NamesPortsThatAreDownAndTypesOfGids) {
  Machine m = bigMachine();
  m.nics[0].ports[0] = {.state = "down",
                        .linkLayer = "Ethernet",
                        .gids = {{0, "fe80::1", "RoCE v1"}, {1, "fe80::1", "RoCE v2"}}};
  EXPECT_TRUE(has(linesOf(topoText(m, 1)),
                  "  port 1      down, Ethernet, speed unknown, 2 GIDs (RoCE v1, RoCE v2)"));
}

TEST(TopoText, CountsNvLinks) {
  const auto lines = linesOf(topoText(withNvLinks(), 8));
  for (const char* line : {
           "              18 NVLinks, closest NIC mlx5_0:1 (PIX), "
           "GPU-64656667-6869-6a6b-6c6d-6e6f70717273",
           "              1 NVLink, closest NIC mlx5_1:1 (PIX), "
           "GPU-65666768-696a-6b6c-6d6e-6f7071727374",
           "              0 NVLinks, closest NIC mlx5_2:1 (PIX), "
           "GPU-66676869-6a6b-6c6d-6e6f-707172737475",
           "              NVLinks unknown, closest NIC mlx5_3:1 (PIX), "
           "GPU-6768696a-6b6c-6d6e-6f70-717273747576",
       })
    EXPECT_TRUE(has(lines, line)) << line;
}

TEST(TopoJson, HasEverything) {
  const std::string text = topoJson(bigMachine(), 4);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const Json json = Json::parse(text);
  EXPECT_EQ(json["host"], "example");
  EXPECT_EQ(json["packages"].size(), 2u);
  EXPECT_EQ(json["numa_nodes"][1]["memory_bytes"], uint64_t{512} << 30);
  EXPECT_EQ(json["cores"][7]["pus"], (std::vector<int>{14, 15}));
  EXPECT_EQ(json["usable_cores"], 8);
  EXPECT_EQ(json["pci_devices"].size(), 17u);
  EXPECT_EQ(json["gpus"][5]["pci"], "0002:07:00.0");
  EXPECT_EQ(json["gpus"][5]["reaches"][0], false);
  EXPECT_EQ(json["gpus"][5]["reaches"][7], true);
  EXPECT_EQ(json["gpus"][5]["nvlinks"], nullptr);
  EXPECT_EQ(json["gpus"][0]["uuid"], "GPU-64656667-6869-6a6b-6c6d-6e6f70717273");
  EXPECT_EQ(json["nics"][2]["ports"][0]["gigabits_per_second"], 400);
  EXPECT_EQ(json["interfaces"][0]["gigabits_per_second"], nullptr);
  EXPECT_EQ(json["interfaces"][1]["pci"], "0000:20:00.0");
  EXPECT_EQ(json["distances"].size(), 9u * (8 + 2) + 8u * 7);
  EXPECT_EQ(json["distances"][1], (Json{{"gpu", 0}, {"device", "mlx5_1:1"}, {"distance", "PXB"}}));
  EXPECT_EQ(json["distances"][89],
            (Json{{"numa_node", 1}, {"device", "eth0"}, {"distance", "SYS"}}));
  EXPECT_EQ(json["distances"][90], (Json{{"gpu", 0}, {"to_gpu", 1}, {"distance", "PXB"}}));
  EXPECT_EQ(json["distances"][145], (Json{{"gpu", 7}, {"to_gpu", 6}, {"distance", "PXB"}}));
  EXPECT_EQ(json["transports"][1]["joins"],
            "the 4 ranks of this host (6 pairs), by peer access, NVLinks unknown (GPUs 0-3)");
  EXPECT_EQ(json["transports"][1]["because"], "");
  EXPECT_EQ(json["gpu_pairs"].size(), 6u);
  EXPECT_EQ(json["gpu_pairs"][5], (Json{{"gpus", {2, 3}},
                                        {"rank_pairs", 1},
                                        {"direct", true},
                                        {"how", "by peer access, NVLinks unknown"}}));
  const Json apart = Json::parse(topoJson(bigMachine(), 9))["gpu_pairs"];
  EXPECT_EQ(apart.size(), 29u);
  EXPECT_EQ(
      apart[0],
      (Json{{"gpus", {0, 0}}, {"rank_pairs", 1}, {"direct", true}, {"how", "on the same GPU"}}));
  EXPECT_EQ(apart[5], (Json{{"gpus", {0, 5}},
                            {"rank_pairs", 2},
                            {"direct", false},
                            {"how",
                             "through memory of the host, as neither can address the "
                             "other's memory"}}));
  EXPECT_EQ(json["ranks"].size(), 4u);
  EXPECT_EQ(json["ranks"][3]["closest_nic"], "mlx5_3:1");
  EXPECT_EQ(json["ranks"][3]["gpu"], 3);
}

TEST(TopoJson, CountsNvLinks) {
  const Json gpus = Json::parse(topoJson(withNvLinks(), 8))["gpus"];
  EXPECT_EQ(gpus[0]["nvlinks"], 18);
  EXPECT_EQ(gpus[1]["nvlinks"], 1);
  EXPECT_EQ(gpus[2]["nvlinks"], 0);
  EXPECT_EQ(gpus[3]["nvlinks"], nullptr);
}

TEST(TopoJson, SurvivesNamesThatAreNoText) {
  Machine m = bigMachine();
  m.gpus[0].name = "GPU \xff\xfe";
  EXPECT_NO_THROW(Json::parse(topoJson(m, 1)));
}

/// Whether a document's tags close in order. Enough of XML for what is written here.
bool wellFormed(const std::string& text) {
  static const std::regex tag("<(/?)([a-z]+)([^<>]*?)(/?)>");
  std::vector<std::string> open;
  for (std::sregex_iterator at(text.begin(), text.end(), tag), end; at != end; ++at) {
    if ((*at)[4] == "/") continue;
    if ((*at)[1] != "/") {
      open.push_back((*at)[2]);
    } else {
      if (open.empty() || open.back() != (*at)[2]) return false;
      open.pop_back();
    }
  }
  return open.empty() &&
         count(text, "<") == std::distance(std::sregex_iterator(text.begin(), text.end(), tag),
                                           std::sregex_iterator());
}

struct Area {
  int x, y, width, height;
};
std::vector<Area> rectanglesOf(const std::string& svg) {
  static const std::regex rectangle(
      R"re(<rect x="(-?\d+)" y="(-?\d+)" width="(-?\d+)" height="(-?\d+)")re");
  std::vector<Area> areas;
  for (std::sregex_iterator at(svg.begin(), svg.end(), rectangle), end; at != end; ++at)
    areas.push_back(
        {std::stoi((*at)[1]), std::stoi((*at)[2]), std::stoi((*at)[3]), std::stoi((*at)[4])});
  return areas;
}

/// Boxes contain each other, or are apart; the first is the whole picture.
void expectTidy(const std::string& svg) {
  const auto areas = rectanglesOf(svg);
  ASSERT_FALSE(areas.empty());
  const auto contains = [](const Area& a, const Area& b) {
    return a.x <= b.x && a.y <= b.y && a.x + a.width >= b.x + b.width &&
           a.y + a.height >= b.y + b.height;
  };
  const auto apart = [](const Area& a, const Area& b) {
    return a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y ||
           b.y + b.height <= a.y;
  };
  for (size_t i = 0; i < areas.size(); ++i) {
    EXPECT_TRUE(contains(areas[0], areas[i])) << "box " << i << " lies outside";
    for (size_t j = i + 1; j < areas.size(); ++j)
      EXPECT_TRUE(apart(areas[i], areas[j]) || contains(areas[i], areas[j]))
          << "boxes " << i << " and " << j << " overlap";
  }
}

TEST(TopoSvg, ShowsEveryPart) {
  const std::string svg = topoSvg(bigMachine(), 8);
  EXPECT_TRUE(svg.starts_with("<svg"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_TRUE(wellFormed(svg));
  expectTidy(svg);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(count(svg, ">GPU " + std::to_string(i) + "<"), 1);
    EXPECT_EQ(count(svg, ">mlx5_" + std::to_string(i) + "<"), 1);
    EXPECT_EQ(count(svg, ">rank " + std::to_string(i) + "<"), 1);
  }
  EXPECT_EQ(count(svg, ">eth0<"), 1);
  EXPECT_EQ(count(svg, ">lo<"), 0);
  EXPECT_EQ(count(svg, ">host bridge<"), 4);
  EXPECT_EQ(count(svg, ">PCI switch<"), 8);
  EXPECT_EQ(count(svg, ">L3 64 MiB<"), 2);
  EXPECT_EQ(count(svg, ">PUs "), 8);
  EXPECT_EQ(count(svg, "reach each other"), 2);
  EXPECT_EQ(count(svg, "shm: the 8 ranks of this host (28 pairs), by shared memory"), 1);
}

// Host names are whatever the kernel was told.
TEST(Topo, IsUtf8WhateverTheNamesAre) {
  Machine m = bigMachine();
  m.host = "h\xF6st\x1B";
  EXPECT_TRUE(topoSvg(m, 2).find("h\xEF\xBF\xBDst ") != std::string::npos);
  EXPECT_TRUE(topoText(m, 2).find("h?st?: ") != std::string::npos) << topoText(m, 2);
  EXPECT_TRUE(topoJson(m, 2).find("h\xEF\xBF\xBDst\\u001b") != std::string::npos);
}

TEST(TopoSvg, IsTheOneInTheDocs) {
  std::ifstream in(picturePath);
  std::ostringstream shown;
  shown << in.rdbuf();
  EXPECT_EQ(shown.str(), topoSvg(bigMachine(), 8))
      << "draw it anew: tools_topo " << picturePath << " draw";
}

TEST(TopoSvg, IsTidyForOtherMachines) {
  for (const char* synthetic :
       {"pack:1 core:1 pu:1", "pack:2 numa:4 l3:2 core:8 pu:2", "pack:4 l3:1 core:28 pu:2",
        "numa:2 core:3 pu:1", "pack:1 l3:8 l2:8 core:1 pu:2"}) {
    SCOPED_TRACE(synthetic);
    Machine m;
    m.host = "some <host> & more";
    topology::readProcessors(m, {.synthetic = synthetic});
    EXPECT_EQ(m.problems.size(), 0u);
    m.usable.resize(1);
    m.nics.push_back(
        {.name = "rxe0", .ports = {{.state = "active"}, {.number = 2, .state = "down"}}});
    m.interfaces.push_back({.name = "tun<0>", .addresses = {"10.0.0.1"}, .up = true});
    const std::string svg = topoSvg(m, 3);
    EXPECT_TRUE(wellFormed(svg)) << svg;
    expectTidy(svg);
    EXPECT_EQ(count(svg, "of no known place"), 0);
    EXPECT_EQ(count(svg, "Of no known place:"), 1);
    EXPECT_EQ(count(svg, ">rxe0<"), 1);
    EXPECT_EQ(count(svg, ">tun&lt;0&gt;<"), 1);
    EXPECT_EQ(count(svg, ">PU"), static_cast<int>(m.cores.size()));
  }
  EXPECT_TRUE(wellFormed(topoSvg({}, 1)));
}

TEST(PciTrees, LeaveOutBridgesWithOneThingBehind) {
  const Machine m = bigMachine();
  std::vector<size_t> all(m.pciDevices.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  const auto trees = pciTrees(m, all);
  ASSERT_EQ(trees.size(), 4u);
  const PciNode& first = trees[0];
  EXPECT_EQ(first.kind, PciNode::Kind::HostBridge);
  ASSERT_EQ(first.children.size(), 2u);
  const auto isSwitch = [](const PciNode& n) { return n.kind == PciNode::Kind::Switch; };
  const auto found = std::ranges::find_if(first.children, isSwitch);
  ASSERT_NE(found, first.children.end());
  EXPECT_EQ(found->children.size(), 3u);
  EXPECT_EQ(std::ranges::count_if(found->children, isSwitch), 1);
  // Two functions of one card.
  Machine card;
  card.pciDevices = {{.bridges = {0, 1}}, {.bridges = {0, 1}}};
  const auto slot = pciTrees(card, {0, 1});
  ASSERT_EQ(slot.size(), 1u);
  ASSERT_EQ(slot[0].children.size(), 1u);
  EXPECT_EQ(slot[0].children[0].kind, PciNode::Kind::Slot);
  EXPECT_EQ(slot[0].children[0].children[1].device, 1u);
}

TEST(Svg, EscapesText) {
  base::Svg svg(10, 10, "a<b");
  svg.text(1, 2, "1 < 2 && 3 > 2\x01");
  const std::string text = std::move(svg).finish();
  EXPECT_NE(text.find("<title>a&lt;b</title>"), std::string::npos);
  EXPECT_NE(text.find(">1 &lt; 2 &amp;&amp; 3 &gt; 2 <"), std::string::npos);
  EXPECT_TRUE(wellFormed(text));
}

TEST(Units, HaveThreeDigits) {
  EXPECT_EQ(bytesText(0), "0 bytes");
  EXPECT_EQ(bytesText(1), "1 byte");
  EXPECT_EQ(bytesText(1023), "1023 bytes");
  EXPECT_EQ(bytesText(1024), "1 KiB");
  EXPECT_EQ(bytesText(1536), "1.5 KiB");
  EXPECT_EQ(bytesText((1 << 20) - 1), "1 MiB");
  EXPECT_EQ(bytesText(25276502016), "23.5 GiB");
  EXPECT_EQ(bytesText(uint64_t{512} << 30), "512 GiB");
  EXPECT_EQ(bytesText(UINT64_MAX), "16 EiB");
  EXPECT_EQ(numbersText("PU", {4}), "PU 4");
  EXPECT_EQ(numbersText("PU", {0, 1}), "PUs 0-1");
  EXPECT_EQ(rateText(2.5), "2.5 Gbit/s");
}

TEST(Pages, BreakLinesAtSpaces) {
  Page page(6);
  page.line("label", std::string(60, 'a') + " " + std::string(40, 'b') + " c");
  page.line("a long label", "words");
  page.line("none", "");
  page.unbroken("long", std::string(60, 'd') + " " + std::string(60, 'e'));
  EXPECT_EQ(std::move(page).take(), "label " + std::string(60, 'a') + "\n      " +
                                        std::string(40, 'b') +
                                        " c\na long label words\nnone\nlong  " +
                                        std::string(60, 'd') + " " + std::string(60, 'e') + "\n");
}

int codeOf(std::vector<const char*> words) {
  words.insert(words.begin(), "topo");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const auto parsed = parseTopo(static_cast<int>(words.size()), words.data());
  testing::internal::GetCapturedStdout();
  testing::internal::GetCapturedStderr();
  const int* code = std::get_if<int>(&parsed);
  return code ? *code : -1;
}

TEST(Pages, FillAHundredColumns) {
  const auto linesWith = [](size_t characters) {
    Page page(6);
    page.line("label", std::string(characters - 2, 'a') + " b");
    return linesOf(std::move(page).take()).size();
  };
  EXPECT_EQ(linesWith(94), 1u);
  EXPECT_EQ(linesWith(95), 2u);
}

TEST(TopoOptions, AreReadOrRefused) {
  const std::vector<const char*> words{"topo", "--json", "-", "--svg", "x.svg", "--ranks", "5"};
  const auto o = std::get<TopoOptions>(parseTopo(static_cast<int>(words.size()), words.data()));
  EXPECT_EQ(o.jsonFile, "-");
  EXPECT_EQ(o.svgFile, "x.svg");
  EXPECT_EQ(o.ranks, 5);
  EXPECT_EQ(codeOf({}), -1);
  EXPECT_EQ(codeOf({"--help"}), 0);
  EXPECT_EQ(codeOf({"--ranks", "0"}), 2);
  EXPECT_EQ(codeOf({"-n", "many"}), 2);
  EXPECT_EQ(codeOf({"--svg"}), 2);
  EXPECT_EQ(codeOf({"--colour"}), 2);
  EXPECT_EQ(codeOf({"everything"}), 2);
}

}  // namespace
}  // namespace tutti::tools
