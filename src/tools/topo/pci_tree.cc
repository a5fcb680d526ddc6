#include "src/tools/topo/pci_tree.h"

#include <algorithm>

namespace tutti::tools {
namespace {

using topology::Machine;

/// What is below the bridge that all of `devices` have at `depth` of their way.
PciNode below(const Machine& machine, const std::vector<size_t>& devices, size_t depth) {
  PciNode node{.kind = depth == 0 ? PciNode::Kind::HostBridge : PciNode::Kind::Slot};
  std::vector<int> ports;  // bridges one level down, in the order of the devices
  for (const size_t i : devices) {
    const std::vector<int>& way = machine.pciDevices[i].bridges;
    if (way.size() == depth + 1)
      node.children.push_back({.kind = PciNode::Kind::Device, .device = i});
    else if (!std::ranges::count(ports, way[depth + 1]))
      ports.push_back(way[depth + 1]);
  }
  for (const int port : ports) {
    std::vector<size_t> behind;
    std::ranges::copy_if(devices, std::back_inserter(behind), [&](size_t i) {
      const std::vector<int>& way = machine.pciDevices[i].bridges;
      return way.size() > depth + 1 && way[depth + 1] == port;
    });
    node.children.push_back(below(machine, behind, depth + 1));
  }
  if (depth > 0 && node.children.size() == 1) return PciNode(node.children[0]);
  if (depth > 0 && ports.size() > 1) node.kind = PciNode::Kind::Switch;
  return node;
}

}  // namespace

std::vector<PciNode> pciTrees(const Machine& machine, const std::vector<size_t>& devices) {
  std::vector<int> hostBridges;
  for (const size_t i : devices) {
    const std::vector<int>& way = machine.pciDevices[i].bridges;
    if (!way.empty() && !std::ranges::count(hostBridges, way[0])) hostBridges.push_back(way[0]);
  }
  std::vector<PciNode> trees;
  for (const int bridge : hostBridges) {
    std::vector<size_t> behind;
    std::ranges::copy_if(devices, std::back_inserter(behind), [&](size_t i) {
      const std::vector<int>& way = machine.pciDevices[i].bridges;
      return !way.empty() && way[0] == bridge;
    });
    trees.push_back(below(machine, behind, 0));
  }
  return trees;
}

}  // namespace tutti::tools
