#pragma once

// Who takes part in a comparison, and how each one's ranks are started.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/jobs/job.h"
#include "src/base/file_descriptor.h"

namespace tutti::bench {

/// Where programs are: those of the build, and the peers that `make bench-peers` installs.
struct Places {
  std::filesystem::path bin, peers;
};

struct Contender {
  std::string name;                   ///< of --only; Tutti is "tutti"
  std::string title;                  ///< of tables
  std::string worker;                 ///< the program of a rank
  std::vector<std::string> launcher;  ///< before "-n RANKS"; empty: a process for each rank
  std::vector<std::string> flags;     ///< behind it
  std::vector<std::string> crowded;   ///< more of them, for more ranks than cores
  std::string source;                 ///< how one gets it
  bool lacksReduceScatter = false;

  bool has(worker_collective collective) const {
    return collective != WORKER_REDUCE_SCATTER || !lacksReduceScatter;
  }
  std::vector<Process> processes(int ranks, int cores, const std::filesystem::path& log) const;
};

/// Tutti is the first one.
std::vector<Contender> contenders(const Places& places);

/// The jobs of one number of ranks, started when they are first needed.
class Jobs {
 public:
  /// In `root` it has a folder of its own, which is removed at the end. Those that killed processes
  /// have left there are removed at once.
  Jobs(const std::filesystem::path& root, int cores);
  ~Jobs();
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  /// Ends those of other numbers of ranks, or of other contenders.
  void keep(int ranks, const std::vector<const Contender*>& which);
  /// Throws std::runtime_error, with what the job has said, when it does not start.
  Job& of(const Contender& contender);
  /// What the running job says that it is.
  std::string version(const Contender& contender) const;
  void end(const Contender& contender);

 private:
  std::filesystem::path folderOf(const Contender& c) const { return folder_ / c.name; }
  std::filesystem::path logOf(const Contender& c) const { return folder_ / (c.name + ".log"); }

  std::filesystem::path folder_;
  base::FileDescriptor lock_;
  int cores_, ranks_ = 0;
  std::vector<std::pair<std::string, std::unique_ptr<Job>>> jobs_;
};

}  // namespace tutti::bench
