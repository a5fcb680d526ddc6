#pragma once

// A job that is only described: how many ranks, on which hosts, with how many cores. What `tutti
// plan`, `tutti explain` and `tutti shard` choose for.

#include <string>
#include <vector>

#include "src/topology/topology.h"

namespace CLI {
class App;
}  // namespace CLI

namespace tutti::tools {

struct PlannedJob {
  int ranks = 0;
  std::vector<int> hostOf;  ///< of each rank; empty: all on one
  int cores = 0;            ///< that the ranks of a host share; 0: one each
  std::string tuningFile;   ///< or empty

  /// With the rings that the communicator of such a job has.
  topology::Topology topology() const;
  /// The file's constants, else those that TUTTI_TUNING names, else the defaults.
  topology::Tuning tuning() const;
};

/// The options that describe a job.
class JobOptions {
 public:
  /// Of at most `most` ranks, which share this host's cores where nothing else is said.
  JobOptions(CLI::App& app, int most);
  /// All but their number; a core for each where nothing else is said.
  explicit JobOptions(CLI::App& app);
  /// Throws InvalidArgument naming an option whose value makes no sense.
  PlannedJob parsed() const;
  PlannedJob parsed(int ranks) const;  ///< of so many, whatever the options say

 private:
  void addPlaces(CLI::App& app, const char* cores);

  PlannedJob job_;
  std::string hosts_;
};

}  // namespace tutti::tools
