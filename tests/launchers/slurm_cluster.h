#pragma once

// A Slurm of one machine for a test: munged, slurmctld and two slurmd of the test's own user, with
// a key, a configuration and state in a temporary folder, at ports of the loopback that were free.
// Jobs run on one node. Those of the partition "two" may have both.

#include <memory>
#include <string>
#include <vector>

#include "tests/support/run_tutti.h"

namespace tutti::launchers {

/// The first of the programs that is not installed; empty when all are.
std::string missingSlurmProgram();

class SlurmCluster {
 public:
  /// Starts it and points SLURM_CONF at it; ready() when its nodes take jobs.
  SlurmCluster();
  ~SlurmCluster();
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;

  bool ready() const { return ready_; }
  /// What the daemons said, for a failure's message. Ends them.
  std::string log();

 private:
  void writeFiles() const;
  std::string path(const std::string& name) const { return folder_.path().string() + "/" + name; }

  launcher::TemporaryFolder folder_;
  std::unique_ptr<launcher::Command> munged_, controller_;
  std::vector<std::unique_ptr<launcher::Command>> nodes_;
  bool ready_ = false;
};

}  // namespace tutti::launchers
