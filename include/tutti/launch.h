#pragma once

// Starts the ranks of a job as processes of this host and looks after them until the last has
// ended: what `tutti run` does, for programs that want to do it themselves. Across hosts the
// cluster's own launcher (Slurm, mpirun, torchrun) takes this place; launchedRank() tells whether
// one has.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace tutti {

struct LaunchOptions {
  /// Program and arguments. A name without a slash is looked for on PATH.
  std::vector<std::string> command;
  int ranks = 1;  ///< 1 to 4096

  /// Each line of output begins with "[rank] "; lines of different ranks never mix. Lines longer
  /// than 64 KiB continue on a new one that begins with "[rank]+". Off: ranks write to this
  /// process's standard output and error themselves.
  bool prefixOutput = true;
  /// When not empty: rank 3 writes to 3.out and 3.err in this folder, which is made when it does
  /// not exist, and prefixOutput has no meaning.
  std::string outputDirectory;

  /// Between asking the ranks to end (SIGTERM) and ending them (SIGKILL).
  std::chrono::milliseconds gracePeriod{10'000};

  /// How many times a job that failed is started again, 0 to 1000: all of its ranks are ended, and
  /// new ones meet under a new id. Their output goes to the folder restart-1, restart-2, ... inside
  /// outputDirectory, if there is one.
  int restarts = 0;

  /// The job's UniqueId in hexadecimal. Empty, as it must be with restarts: this process makes one
  /// and serves it.
  std::string uniqueId;
};

/// Runs the job and returns the exit code to use: 0 when every rank returned 0, otherwise that of
/// the rank that failed first, or 128 + the signal that killed it; 127 when the program does not
/// exist and 126 when it cannot be executed. What went wrong is written to standard error, with
/// the last lines of the rank that failed first. With restarts, the code is that of the last
/// attempt; a job is not started again when one of the signals below was to end it, when its
/// program cannot be executed, or when nobody reads what it writes any more.
///
/// Each rank gets TUTTI_RANK, TUTTI_WORLD_SIZE, TUTTI_LOCAL_RANK, TUTTI_UNIQUE_ID and TUTTI_RESTART
/// (how many times the job was started before), and, unless they are set, OMP_NUM_THREADS and
/// OPENBLAS_NUM_THREADS of its share of the cores. Rank 0 reads this process's standard input, the
/// others nothing. Each is a process group of its own: what it started ends with it, and every rank
/// ends when this process does, however it ends.
///
/// While it runs, SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 to this process are passed on to
/// every rank; the first three also reach what the ranks have started, as a terminal's would, and
/// start the grace period. One call at a time in a process.
/// Throws InvalidArgument, InvalidUsage, OutOfMemory or System, when nothing is left running.
int launch(const LaunchOptions& options);

/// Who a launcher says that this process is.
struct LaunchedRank {
  std::string launcher;  ///< "tutti run", "torchrun", "Slurm", ...
  int rank = 0, size = 1;
};

/// What Communicator::create() would go by: nothing when no launcher (tutti run, torchrun, srun,
/// mpirun, ...) has started this process, so that it may call launch() itself. Variables of an
/// allocation alone (salloc, a batch script) are no launcher. Throws InvalidArgument naming the
/// variable that is malformed or missing, after it has told so to the other ranks of the job, where
/// it is known where they meet.
std::optional<LaunchedRank> launchedRank();

}  // namespace tutti
