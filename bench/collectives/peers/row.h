#pragma once

// What a comparison of collectives has measured: a row for each collective, number of ranks and
// size, and all of it as JSON, from which an interrupted one goes on.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/jobs/job.h"
#include "src/tools/common/json.h"

namespace tutti::bench {

/// By the numbers of worker_collective.
const std::vector<std::string>& collectiveNames();

/// Which row.
struct Case {
  worker_collective collective = WORKER_ALL_REDUCE;
  int ranks = 2;
  uint64_t bytes = 0;  ///< of the larger buffer, each rank's block having an element; 0 of barriers

  bool operator==(const Case&) const = default;
  std::string name() const { return collectiveNames()[collective]; }
  /// Bytes of a rank's two buffers.
  uint64_t bufferBytes() const;
};

/// One contender's blocks.
struct Series {
  std::string contender;                   ///< "allocate" and "ordinary" are Tutti, in such memory
  std::vector<double> us;                  ///< medians of the blocks, of the slowest rank
  size_t firstPair = 0;                    ///< of a peer: the block of Tutti's beside its first
  std::string error = {};                  ///< why there are no blocks
  std::optional<double> predictedUs = {};  ///< by the chooser of Tutti
};

struct Row {
  Case what;
  double flagNs = 0;              ///< one way between two threads
  std::optional<double> limitUs;  ///< of two ranks: the same bytes by loads and stores
  std::vector<Series> series;

  /// Null where it did not take part.
  const Series* find(const std::string& contender) const;
  /// A peer's time over Tutti's in such memory, block by block; none where either has no blocks.
  std::optional<Interval> ratio(const Series& peer, const std::string& memory) const;
  /// The peer with the least median of ratios, or null.
  const Series* bestPeer(const std::string& memory) const;
};

bool isTutti(const Series& series);
double medianUs(const Series& series);

/// What a comparison's figures are comparable within.
struct Settings {
  std::string version, commit, machine;
  int blocks = 0;
  uint32_t calls = 0;
  std::vector<std::string> memory;  ///< of Tutti's buffers
  std::vector<std::string> peers;   ///< that may take part

  bool operator==(const Settings&) const = default;
};

struct Contest {
  Settings settings;
  std::string date;
  double clockNs = 0;                                         ///< what reading the clock takes
  std::vector<std::pair<std::string, std::string>> versions;  ///< of the contenders
  std::vector<std::pair<std::string, std::string>> absent;    ///< peers that do not run, and why
  std::vector<Row> rows;

  const Row* find(const Case& what) const;
};

/// Adds a pair, or changes that of the same name.
void setEntry(std::vector<std::pair<std::string, std::string>>& entries, const std::string& name,
              const std::string& words);

tools::Json json(const Contest& contest);
/// Throws InvalidArgument naming `file` where `text` is not what json() writes.
Contest contestOf(const std::string& file, const std::string& text);

}  // namespace tutti::bench
