#pragma once

// Files that describe clusters to simulate, as JSON. docs/reference/commands.md lists the keys.

#include <filesystem>
#include <string>

#include "src/topology/cluster.h"

namespace tutti::tools {

/// The cluster that `text` describes. Throws InvalidArgument naming the key that is missing,
/// unknown, twice there, or has a value that no cluster can have.
topology::Cluster parseCluster(const std::string& name, const std::string& text);

/// The cluster of a file, or of one of those in `folder` by its name without ".json". Throws
/// InvalidArgument where there is none, naming those that there are, or where it cannot be read.
topology::Cluster readCluster(const std::string& nameOrPath, const std::filesystem::path& folder);

/// Where the files lie that come with this program: beside it, in the build tree and installed.
std::filesystem::path clusterFolder();

}  // namespace tutti::tools
