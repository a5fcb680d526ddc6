#pragma once

/// \file
/// Starts the ranks of a job as processes of this host, and supervises them until the last one has
/// ended. `tutti run` does it from the command line; this header is for programs that start ranks
/// themselves. Across hosts the cluster's launcher (Slurm, mpirun, torchrun) does it instead.
/// launchedRank() tells whether a launcher has started this process.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace tutti {

/// Options of launch().
struct LaunchOptions {
  /// Program and arguments. A program name without a slash is looked up on PATH.
  std::vector<std::string> command;
  int ranks = 1;  ///< 1 to 4096

  /// Puts "[rank] " before each line of output. Lines of different ranks never mix. A line longer
  /// than 64 KiB continues on a new line that begins with "[rank]+". If false, ranks write directly
  /// to this process's standard output and error.
  bool prefixOutput = true;
  /// If not empty, rank 3 writes to 3.out and 3.err in this folder, and prefixOutput has no effect.
  /// The folder is made if it does not exist.
  std::string outputDirectory;

  /// Time between the request to end (SIGTERM) and the kill (SIGKILL).
  std::chrono::milliseconds gracePeriod{10'000};

  /// How long output waits for its reader after the last rank has ended: a pager, or a program that
  /// stands still. It begins anew whenever the reader takes something. A signal to end ends it.
  std::chrono::milliseconds outputTimeout{600'000};

  /// How many times a failed job is started again, 0 to 1000. All ranks are ended first. The new
  /// ranks use a new id. If there is an outputDirectory, they write to the folders restart-1,
  /// restart-2 and so on inside it.
  int restarts = 0;

  /// Whether the other ranks go on when one fails, as those do that shrink their communicator. All
  /// ranks are still ended if one cannot be started. It must be false with restarts.
  bool keepGoing = false;

  /// The job's UniqueId in hexadecimal. If empty, this process makes an id and serves it. It must
  /// be empty with restarts.
  std::string uniqueId;
};

/// Runs the job and returns the exit code to use. One call at a time in a process. Throws
/// InvalidArgument, InvalidUsage, OutOfMemory or System, and leaves nothing running then.
///
/// \par Exit code
/// - 0: every rank returned 0.
/// - The exit code of the rank that failed first, or 128 + the signal that killed it, also with
///   keepGoing.
/// - 127: the program does not exist.
/// - 126: the program cannot be executed.
/// - 1: no rank failed, but output is lost: the disk is full, or its reader takes nothing.
///
/// Standard error has what went wrong, with the last lines of the rank that failed first.
///
/// \par Restarts
/// With restarts, the exit code is the code of the last attempt. A job is not started again in
/// three cases: a signal asked it to end, its program cannot be executed, or nobody reads its
/// output any more.
///
/// \par Ranks
/// Each rank gets TUTTI_RANK, TUTTI_WORLD_SIZE, TUTTI_LOCAL_RANK, TUTTI_UNIQUE_ID and
/// TUTTI_RESTART, the number of earlier starts of the job. OMP_NUM_THREADS and OPENBLAS_NUM_THREADS
/// are set to the rank's share of the cores, unless they are set already.
///
/// Rank 0 reads this process's standard input; the others read nothing. Each rank is a process
/// group of its own, and the processes that it started end with it. Every rank ends when this
/// process ends, however that happens.
///
/// \par Signals
/// While it runs, it passes SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 on to every rank. The
/// first three also go to the processes that ranks have started, as from a terminal, and start the
/// grace period. The second of them ends it: ranks that are left are killed, and output that nobody
/// reads is dropped. Signals of the same quarter of a second count once.
int launch(const LaunchOptions& options);

/// This process's place in a job, by its launcher.
struct LaunchedRank {
  std::string launcher;  ///< "tutti run", "torchrun", "Slurm", ...
  int rank = 0, size = 1;
};

/// The launcher and rank that Communicator::create() would use. Nothing if no launcher (tutti run,
/// torchrun, srun, mpirun and others) has started this process, so that it may call launch()
/// itself. The variables of a bare allocation (salloc, a batch script) do not count as a launcher.
///
/// Throws InvalidArgument, which names the variable that is malformed or missing. Before it throws,
/// it tells the other ranks of the job, if the rendezvous is known.
std::optional<LaunchedRank> launchedRank();

}  // namespace tutti
