#pragma once

// The launchers whose variables tell a rank who it is, as a table. A new launcher is a new row.
//
// One launcher may run inside another, and its ranks then have the variables of both: mpirun and
// mpiexec start their ranks, or the daemons that start them, as one step of a Slurm job; torchrun
// and tutti run are started by any of the others. So the inner ones are asked first.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <tutti/error.h>

namespace tutti::bootstrap {

/// Looks up one environment variable; tests give their own.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;
/// The lookup in this process's own environment.
std::optional<std::string> processVariable(const std::string& name);

/// The variables that hold each fact, the first that is set counting.
struct Launcher {
  const char* name;
  std::vector<const char*> rank;  ///< the first of these that is set says: this launcher
  std::vector<const char*> size;
  std::vector<const char*> host;  ///< of the rendezvous; beside TUTTI_ADDRESS
  std::vector<const char*> port;
  std::vector<const char*> run;        ///< tell two jobs apart; all of them count
  std::vector<const char*> attempt;    ///< tell two attempts of one job apart, and some jobs
  std::vector<const char*> localSize;  ///< ranks on this host
  std::vector<const char*> nodes;      ///< hosts
  bool oneHost = false;                ///< where neither of these is set
  /// A descriptor's number: the process at the other end of this socket tells two jobs apart.
  const char* parent = nullptr;
  /// When set, one process on each host has started all ranks there: on one host it tells most
  /// jobs apart, by launchingProcess().
  const char* agent = nullptr;
  /// When not empty: without one of these the row does not count. A Slurm batch script has a rank
  /// and a size of its own, but no step: its ranks are started by srun, or by nobody.
  std::vector<const char*> needs;
};

/// In the order in which they are asked: the first that speaks counts.
const std::vector<Launcher>& launchers();

/// What a launcher said.
struct LaunchFacts {
  std::string launcher;
  int rank = -1, size = -1;  ///< -1: malformed
  bool oneHost = false;      ///< all ranks share this host
  std::string run;           ///< what tells jobs and attempts apart
  bool namesJob = false;     ///< `run` differs between any two jobs
  std::optional<std::string> host;
  std::optional<int> port;
  std::string addressVariables;  ///< for messages: "TUTTI_ADDRESS or MASTER_ADDR and MASTER_PORT"
  /// "Slurm says rank 2 of 3", where this launcher says that the process is alone: it may be so, or
  /// a variable has stayed in the environment, and each of the three computes by itself.
  std::string contradiction;
  /// InvalidArgument naming the variable that is malformed or missing, where that leaves open who
  /// this rank is, and not where the ranks meet: there it can tell the others.
  std::optional<Error> malformed;
};

/// Nothing when no launcher speaks. Throws InvalidArgument naming the variable that is malformed or
/// missing, where the ranks meet by it.
std::optional<LaunchFacts> readLaunchFacts(const Lookup& lookup);

/// `name`'s value as a whole number from `low` to `high`; throws InvalidArgument naming it.
int parseVariable(const std::string& name, const std::string& value, int low, int high);

}  // namespace tutti::bootstrap
