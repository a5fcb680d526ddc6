#pragma once

// The PCI devices of a machine as a tree of what a person sees on a board: host bridges, switches,
// slots, devices. Bridges with one thing behind them are left out.

#include <string>
#include <vector>

#include "src/topology/machine.h"

namespace tutti::tools {

struct PciNode {
  enum class Kind : uint8_t { HostBridge, Switch, Slot, Device } kind = Kind::HostBridge;
  size_t device = 0;  ///< index into Machine::pciDevices, of a Device
  std::vector<PciNode> children;
};

/// A tree for each host bridge that has one of `devices` (indices into Machine::pciDevices).
std::vector<PciNode> pciTrees(const topology::Machine& machine, const std::vector<size_t>& devices);

}  // namespace tutti::tools
