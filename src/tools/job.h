#pragma once

// A job that is only described: how many ranks, on which hosts, with how many cores. What `tutti
// plan` and `tutti explain` choose for.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "src/topology/topology.h"

namespace tutti::tools {

struct Job {
  int ranks = 0;
  std::vector<int> hostOf;  ///< of each rank; empty: all on one
  int cores = 0;            ///< that the ranks of a host share; 0: one each
  std::string tuningFile;   ///< or empty

  /// With the rings that the communicator of such a job has.
  topology::Topology topology() const;
  /// The file's constants, else those that TUTTI_TUNING names, else the defaults.
  topology::Tuning tuning() const;
};

/// The options that describe a job of at most `most` ranks.
class JobOptions {
 public:
  JobOptions(CLI::App& app, int most);
  /// Throws InvalidArgument naming an option whose value makes no sense.
  Job parsed() const;

 private:
  Job job_;
  std::string hosts_;
};

}  // namespace tutti::tools
