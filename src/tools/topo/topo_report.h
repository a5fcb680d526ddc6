#pragma once

// The three forms of what `tutti topo` says about a machine and ranks on it.

#include <string>

#include "src/topology/machine.h"

namespace tutti::tools {

/// For people, at most 100 columns wide unless a name is longer.
std::string topoText(const topology::Machine& machine, int ranks);
/// For programs, one line; docs/reference/commands.md lists the fields.
std::string topoJson(const topology::Machine& machine, int ranks);
/// A picture: packages with their NUMA nodes, caches and cores, the PCI devices below them, the
/// links between all these.
std::string topoSvg(const topology::Machine& machine, int ranks);

}  // namespace tutti::tools
