// A machine as a picture. From top to bottom: packages side by side, with NUMA nodes, caches and
// cores as boxes inside; below each package its PCI devices as a tree of lines; below the GPUs a
// bar for those that reach each other; then what has no place, the transports, and what colours
// mean. Sizes are computed from the leaves upwards, then everything is drawn from the top.

#include <algorithm>
#include <functional>
#include <map>

#include "src/base/check.h"
#include "src/base/svg.h"
#include "src/tools/common/units.h"
#include "src/tools/topo/pci_tree.h"
#include "src/tools/topo/topo_report.h"
#include "src/topology/distance.h"
#include "src/topology/transports.h"

namespace tutti::tools {
namespace {

using namespace topology;
using base::Svg;

constexpr int kMargin = 20, kGap = 8, kPadding = 10, kLine = 15, kPackageGap = 60;
constexpr int kRow = 34;  // between a node of a tree and what is below it
constexpr double kCharacter = 7;
constexpr const char* kInk = "#303030";
constexpr const char* kEdge = "#8090a0";
constexpr const char* kPackageFill = "#f4f6f8";
constexpr const char* kNodeFill = "#e3ebf3";
constexpr const char* kCacheFill = "#f0e9d8";
constexpr const char* kCoreFill = "#ffffff";
constexpr const char* kUnusableFill = "#cccccc";
constexpr const char* kBridgeFill = "#dddddd";
constexpr const char* kNicFill = "#fbd9a5";
constexpr const char* kGpuFill = "#c3e3b5";
constexpr const char* kOtherFill = "#eeeeee";
constexpr const char* kPeerColour = "#5a9a45";

int textWidth(const std::string& text) {
  return static_cast<int>(static_cast<double>(text.size()) * kCharacter);
}

/// A rectangle with lines of text, and others inside it in rows.
struct Box {
  std::vector<std::string> lines;
  std::string fill;
  std::vector<Box> inside = {};
  size_t perRow = 1;
  int width = 0, height = 0;  // set by measure()
};

void measure(Box& box) {
  int width = 0;
  for (const std::string& line : box.lines) width = std::max(width, textWidth(line));
  int height = kLine * static_cast<int>(box.lines.size());
  for (size_t first = 0; first < box.inside.size(); first += box.perRow) {
    int rowWidth = -kGap, rowHeight = 0;
    const size_t last = std::min(box.inside.size(), first + box.perRow);
    for (size_t i = first; i < last; ++i) {
      measure(box.inside[i]);
      rowWidth += box.inside[i].width + kGap;
      rowHeight = std::max(rowHeight, box.inside[i].height);
    }
    width = std::max(width, rowWidth);
    height += rowHeight + kGap;
  }
  box.width = width + 2 * kPadding;
  box.height = height + kPadding;
}

void draw(Svg& svg, const Box& box, int x, int y) {
  svg.rectangle({x, y, box.width, box.height, box.fill, kEdge, 4});
  const bool leaf = box.inside.empty();
  for (size_t i = 0; i < box.lines.size(); ++i)
    svg.text(leaf ? x + box.width / 2 : x + kPadding, y + kLine * static_cast<int>(i + 1) + 1,
             box.lines[i], leaf ? "text-anchor=\"middle\"" : "");
  int top = y + kLine * static_cast<int>(box.lines.size()) + kGap;
  for (size_t first = 0; first < box.inside.size(); first += box.perRow) {
    int left = x + kPadding, rowHeight = 0;
    const size_t last = std::min(box.inside.size(), first + box.perRow);
    for (size_t i = first; i < last; ++i) {
      draw(svg, box.inside[i], left, top);
      left += box.inside[i].width + kGap;
      rowHeight = std::max(rowHeight, box.inside[i].height);
    }
    top += rowHeight + kGap;
  }
}

/// So many in a row that the whole is wider than high, in equal rows where that can be.
size_t perRow(size_t count) {
  size_t rows = 1;
  while (2 * (rows + 1) * (rows + 1) <= count) ++rows;
  for (size_t equal = rows; equal * equal <= count; ++equal)
    if (count % equal == 0) return count / equal;
  return (count + rows - 1) / rows;
}

/// A tree of PCI devices, placed.
struct PciPicture {
  Box box;
  std::vector<PciPicture> children;
  size_t gpu = SIZE_MAX;  // index of the GPU that it is
  int width = 0, height = 0;
};

class TopologyPicture {
 public:
  TopologyPicture(const Machine& machine, int ranks) : m_(machine), ranks_(ranks) {
    const std::vector<ClosestNic> closest = closestNics(m_, bindInBlocks(m_, ranks));
    const std::vector<NetworkDevice> devices = networkDevices(m_);
    for (size_t rank = 0; rank < closest.size(); ++rank)
      if (closest[rank].device >= 0)
        ranksOf_[devices[closest[rank].device].name].push_back(static_cast<int>(rank));
  }

  std::string make() {
    layOut();
    Svg svg(width_, height_, base::message("tutti topo: ", m_.host));
    svg.rectangle({0, 0, width_, height_, "#ffffff"});
    svg.text(kMargin, kMargin + 6, base::message(m_.host, ": ", processorsText()),
             "font-size=\"15\" font-weight=\"bold\"");
    drawColumns(svg);
    drawPeers(svg);
    drawUnplaced(svg);
    drawWords(svg);
    return std::move(svg).finish();
  }

 private:
  struct Column {  // a package with what is below it
    Box package;
    std::vector<PciPicture> trees;
    int width = 0;
  };

  std::string processorsText() const {
    return base::message(countText(m_.packages.size(), "package"), ", ",
                         countText(m_.numaNodes.size(), "NUMA node"), ", ",
                         countText(m_.cores.size(), "core"), ", ", countText(m_.gpus.size(), "GPU"),
                         ", ", countText(m_.nics.size(), "RDMA NIC"));
  }

  // ---- what is inside a package ----

  Box coreBox(const Core& core) const {
    Box box{.lines = {numbersText("PU", core.cpus)},
            .fill = intersect(core.cpus, m_.usable) ? kCoreFill : kUnusableFill};
    for (const Cache& cache : m_.caches)  // its own ones, the largest last
      if (cache.level >= 2 && cache.cpus == core.cpus)
        box.lines.push_back(base::message("L", cache.level, " ", bytesText(cache.bytes)));
    return box;
  }

  /// Cores among `cpus`, in boxes of the caches that several of them share.
  std::vector<Box> coreBoxes(const CpuSet& cpus) const {
    std::vector<Box> boxes;
    int level = 0;
    for (const Cache& cache : m_.caches) level = std::max(level, cache.level);
    std::vector<bool> placed(m_.cores.size(), false);
    for (const Cache& cache : m_.caches) {
      if (cache.level != level || !intersect(cache.cpus, cpus)) continue;
      Box shared{.lines = {base::message("L", level, " ", bytesText(cache.bytes))},
                 .fill = kCacheFill};
      for (size_t i = 0; i < m_.cores.size(); ++i)
        if (cache.cpus != m_.cores[i].cpus && intersect(m_.cores[i].cpus, cache.cpus)) {
          shared.inside.push_back(coreBox(m_.cores[i]));
          placed[i] = true;
        }
      shared.perRow = perRow(shared.inside.size());
      if (!shared.inside.empty()) boxes.push_back(std::move(shared));
    }
    for (size_t i = 0; i < m_.cores.size(); ++i)
      if (!placed[i] && intersect(m_.cores[i].cpus, cpus)) boxes.push_back(coreBox(m_.cores[i]));
    return boxes;
  }

  Box nodeBox(const NumaNode& node) const {
    Box box{.lines = {base::message("NUMA node ", node.number, ", ", bytesText(node.memoryBytes))},
            .fill = kNodeFill,
            .inside = coreBoxes(node.cpus)};
    box.perRow = std::max<size_t>(1, perRow(box.inside.size()));
    return box;
  }

  /// Of package `index`, or of what belongs to none (-1).
  Box packageBox(int index) const {
    Box box{.fill = kPackageFill};
    if (index >= 0) {
      const std::string& model = m_.packages[index].model;
      box.lines = {base::message("package ", index, model.empty() ? "" : ": ", model)};
    } else {
      box.lines = {m_.packages.empty() ? "processors" : "of no package"};
    }
    for (const NumaNode& node : m_.numaNodes)
      if (node.package == index) box.inside.push_back(nodeBox(node));
    box.perRow = 2;
    measure(box);
    return box;
  }

  // ---- what is below it ----

  int packageOf(const PciDevice& device) const {
    return device.numaNodes.empty() ? -1 : m_.numaNodes[device.numaNodes[0]].package;
  }

  void addRanks(Box& box, const std::string& name) const {
    if (const auto it = ranksOf_.find(name); it != ranksOf_.end())
      box.lines.push_back(numbersText("rank", it->second));
  }

  Box portsBox(const Nic& nic) const {
    Box box{.lines = {nic.name}, .fill = kNicFill};
    for (const NicPort& port : nic.ports) {
      box.lines.push_back(port.active() && port.gigabitsPerSecond > 0
                              ? rateText(port.gigabitsPerSecond)
                              : base::message("port ", port.number, " ", port.state));
      addRanks(box, base::message(nic.name, ":", port.number));
    }
    return box;
  }

  Box interfaceBox(const NetworkInterface& interface) const {
    Box box{.lines = {interface.name}, .fill = kNicFill};
    if (!interface.up)
      box.lines.push_back("down");
    else if (interface.gigabitsPerSecond)
      box.lines.push_back(rateText(*interface.gigabitsPerSecond));
    addRanks(box, interface.name);
    return box;
  }

  PciPicture deviceTree(const PciDevice& device) const {
    PciPicture tree{.box = {.lines = {device.name}, .fill = kOtherFill}};
    const auto here = [&](const auto& thing) { return thing.pci == device.address; };
    const auto gpu = std::ranges::find_if(m_.gpus, here);
    const auto nic = std::ranges::find_if(m_.nics, here);
    const auto interface = std::ranges::find_if(m_.interfaces, here);
    if (gpu != m_.gpus.end()) {
      tree.gpu = static_cast<size_t>(gpu - m_.gpus.begin());
      tree.box = {.lines = {base::message("GPU ", tree.gpu), bytesText(gpu->memoryBytes)},
                  .fill = kGpuFill};
    } else if (nic != m_.nics.end()) {
      tree.box = portsBox(*nic);
    } else if (interface != m_.interfaces.end()) {
      tree.box = interfaceBox(*interface);
    } else if (device.kind == PciDevice::Kind::Gpu) {
      tree.box.lines.push_back("a display, or no driver");
    }
    tree.box.lines.push_back(device.address.describe());
    measureTree(tree);
    return tree;
  }

  PciPicture treeOf(const PciNode& node) const {
    if (node.kind == PciNode::Kind::Device) return deviceTree(m_.pciDevices[node.device]);
    PciPicture tree{.box = {.fill = kBridgeFill}};
    if (node.kind == PciNode::Kind::HostBridge) tree.box.lines = {"host bridge"};
    if (node.kind == PciNode::Kind::Switch) tree.box.lines = {"PCI switch"};
    if (node.kind == PciNode::Kind::Slot) tree.box.lines = {"slot"};
    for (const PciNode& child : node.children) tree.children.push_back(treeOf(child));
    measureTree(tree);
    return tree;
  }

  static void measureTree(PciPicture& tree) {
    measure(tree.box);
    int width = -kGap, height = 0;
    for (const PciPicture& child : tree.children) {
      width += child.width + kGap;
      height = std::max(height, child.height);
    }
    tree.width = std::max(tree.box.width, width);
    tree.height = tree.box.height + (tree.children.empty() ? 0 : kRow + height);
  }

  // ---- the whole ----

  void addColumn(int package) {
    Column column{.package = packageBox(package)};
    std::vector<size_t> devices;
    for (size_t i = 0; i < m_.pciDevices.size(); ++i)
      if (packageOf(m_.pciDevices[i]) == package) devices.push_back(i);
    if (column.package.inside.empty() && devices.empty()) return;
    int below = -3 * kGap;
    for (const PciNode& node : pciTrees(m_, devices)) {
      column.trees.push_back(treeOf(node));
      below += column.trees.back().width + 3 * kGap;
      treesHeight_ = std::max(treesHeight_, column.trees.back().height + kRow);
    }
    column.width = std::max(column.package.width, below);
    packagesHeight_ = std::max(packagesHeight_, column.package.height);
    columns_.push_back(std::move(column));
  }

  void layOut() {
    for (size_t i = 0; i < m_.packages.size(); ++i) addColumn(static_cast<int>(i));
    addColumn(-1);
    findPeers();
    width_ = 2 * kMargin - kPackageGap;
    for (const Column& column : columns_) width_ += column.width + kPackageGap;
    width_ = std::max({width_, 640, 2 * kMargin + textWidth(processorsText()) * 4 / 3 + 60});
    peersTop_ = kTop + packagesHeight_ + treesHeight_ + kGap;
    unplacedTop_ = peersTop_ + 2 * kLine * static_cast<int>(peers_.size()) + kLine;
    measureUnplaced();
    wordsTop_ = unplacedTop_ + (unplaced_.empty() ? 0 : unplacedHeight_ + 2 * kLine);
    writeWords();
    height_ = wordsTop_ + kLine * static_cast<int>(words_.size() + 2) + kMargin;
  }

  void drawColumns(Svg& svg) {
    int x = kMargin;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const Column& column = columns_[i];
      const int left = x + (column.width - column.package.width) / 2;
      if (i > 0 && i < m_.packages.size()) {  // the link between packages
        const int y = kTop + std::min(packagesHeight_, columns_[i - 1].package.height) / 2;
        svg.line({lastRight_, y, left, y, kInk, "stroke-width=\"4\""});
      }
      drawTrees(svg, column, x);
      draw(svg, column.package, left, kTop);
      lastRight_ = left + column.package.width;
      x += column.width + kPackageGap;
    }
  }

  void drawTrees(Svg& svg, const Column& column, int x) {
    int below = -3 * kGap;
    for (const PciPicture& tree : column.trees) below += tree.width + 3 * kGap;
    int left = x + (column.width - below) / 2;
    const int from = x + column.width / 2, bottom = kTop + column.package.height;
    for (const PciPicture& tree : column.trees) {
      const int top = kTop + packagesHeight_ + kRow;
      connect(svg, from, bottom, left + tree.width / 2, top);
      drawTree(svg, tree, left, top);
      left += tree.width + 3 * kGap;
    }
  }

  /// Down, across, and down.
  static void connect(Svg& svg, int x1, int y1, int x2, int y2) {
    const int turn = y2 - kRow / 2;
    svg.line({x1, y1, x1, turn, kInk});
    svg.line({x1, turn, x2, turn, kInk});
    svg.line({x2, turn, x2, y2, kInk});
  }

  void drawTree(Svg& svg, const PciPicture& tree, int x, int y) {
    const int middle = x + tree.width / 2;
    int below = -kGap;
    for (const PciPicture& child : tree.children) below += child.width + kGap;
    int left = x + (tree.width - below) / 2;
    const int bottom = y + tree.box.height;
    for (const PciPicture& child : tree.children) {
      connect(svg, middle, bottom, left + child.width / 2, bottom + kRow);
      drawTree(svg, child, left, bottom + kRow);
      left += child.width + kGap;
    }
    draw(svg, tree.box, middle - tree.box.width / 2, y);
    if (tree.gpu != SIZE_MAX) gpuFeet_[tree.gpu] = {middle, bottom};
  }

  /// Groups of GPUs that all reach each other, each GPU in the first that takes it.
  void findPeers() {
    for (size_t gpu = 0; gpu < m_.gpus.size(); ++gpu) {
      const auto reach = [&](size_t other) {
        return m_.gpus[gpu].reaches[other] && m_.gpus[other].reaches[gpu];
      };
      const auto it = std::ranges::find_if(peers_, [&](const std::vector<size_t>& group) {
        return std::ranges::all_of(group, reach);
      });
      if (it == peers_.end())
        peers_.push_back({gpu});
      else
        it->push_back(gpu);
    }
    std::erase_if(peers_, [](const std::vector<size_t>& group) { return group.size() < 2; });
  }

  void drawPeers(Svg& svg) {
    int y = peersTop_;
    for (const std::vector<size_t>& group : peers_) {
      int left = width_, right = 0;
      for (const size_t gpu : group) {
        const auto foot = gpuFeet_.find(gpu);
        if (foot == gpuFeet_.end()) continue;  // of no known place
        const auto [x, bottom] = foot->second;
        svg.line({x, bottom, x, y, kPeerColour, "stroke-width=\"2\""});
        left = std::min(left, x);
        right = std::max(right, x);
      }
      if (left < right) {
        svg.line({left, y, right, y, kPeerColour, "stroke-width=\"5\""});
        svg.text((left + right) / 2, y + kLine, "these GPUs reach each other's memory",
                 "text-anchor=\"middle\"");
      }
      y += 2 * kLine;
    }
  }

  /// NICs, interfaces and GPUs that are at no PCI device of the tree.
  void measureUnplaced() {
    const auto without = [&](const auto& thing) { return m_.pciDevice(thing.pci) == nullptr; };
    for (const Nic& nic : m_.nics)
      if (without(nic)) unplaced_.push_back(portsBox(nic));
    for (const NetworkInterface& i : m_.interfaces)
      if (without(i) && i.up && !i.loopback) unplaced_.push_back(interfaceBox(i));
    for (size_t i = 0; i < m_.gpus.size(); ++i)
      if (without(m_.gpus[i]))
        unplaced_.push_back({.lines = {base::message("GPU ", i)}, .fill = kGpuFill});
    int width = 2 * kMargin;
    for (Box& box : unplaced_) {
      measure(box);
      width += box.width + kGap;
      unplacedHeight_ = std::max(unplacedHeight_, box.height);
    }
    width_ = std::max(width_, width);
  }

  void drawUnplaced(Svg& svg) {
    if (unplaced_.empty()) return;
    svg.text(kMargin, unplacedTop_ + kLine - 4, "Of no known place:");
    int x = kMargin;
    for (const Box& box : unplaced_) {
      draw(svg, box, x, unplacedTop_ + kLine);
      x += box.width + kGap;
    }
  }

  void writeWords() {
    for (const TransportAnswer& a : transportAnswers(m_, ranks_)) {
      std::string text = a.name + ": " + a.describe();
      const auto most = static_cast<size_t>((width_ - 2 * kMargin) / kCharacter);
      while (text.size() > most) {
        const size_t space = text.rfind(' ', most);
        if (space == std::string::npos || space == 0) break;
        words_.push_back(text.substr(0, space));
        text = "    " + text.substr(space + 1);
      }
      words_.push_back(text);
    }
  }

  void drawWords(Svg& svg) {
    int y = wordsTop_ + kLine;
    for (const std::string& line : words_) {
      svg.text(kMargin, y, line, "xml:space=\"preserve\"");
      y += kLine;
    }
    struct Colour {
      const char *fill, *meaning;
    };
    int x = kMargin;
    for (const Colour& c :
         {Colour{kCoreFill, "core"}, Colour{kUnusableFill, "core not to be used here"},
          Colour{kCacheFill, "cache"}, Colour{kNodeFill, "memory"}, Colour{kNicFill, "network"},
          Colour{kGpuFill, "GPU"}}) {
      svg.rectangle({x, y - 4, 12, 12, c.fill, kEdge});
      svg.text(x + 18, y + 6, c.meaning);
      x += 18 + textWidth(c.meaning) + 3 * kGap;
    }
  }

  static constexpr int kTop = kMargin + 24;
  const Machine& m_;
  const int ranks_;
  std::map<std::string, CpuSet> ranksOf_;  // by network device; numbers of ranks
  std::vector<Column> columns_;
  std::vector<std::vector<size_t>> peers_;
  std::map<size_t, std::pair<int, int>> gpuFeet_;  // where a GPU's box ends
  std::vector<Box> unplaced_;
  std::vector<std::string> words_;
  int width_ = 0, height_ = 0, packagesHeight_ = 0, treesHeight_ = 0, peersTop_ = 0,
      unplacedTop_ = 0, unplacedHeight_ = 0, wordsTop_ = 0, lastRight_ = 0;
};

}  // namespace

std::string topoSvg(const Machine& machine, int ranks) {
  return TopologyPicture(machine, ranks).make();
}

}  // namespace tutti::tools
