#pragma once

// `tutti perf --compare`: what two files of `tutti perf --json` say of the same calls.

#include <compare>
#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/tools/common/median.h"

namespace tutti::tools {

/// What was called; the same in both files.
struct ComparedCall {
  std::string collective, type, op;  ///< names that there are; op also "none"
  int root = -1, ranks = 1;
  bool inPlace = false;
  uint64_t bytes = 0;

  auto operator<=>(const ComparedCall&) const = default;
  /// "all_reduce of float32, sum, 4 ranks, in place": without its size.
  std::string series() const;
};

struct ComparedRow {
  ComparedCall call;
  double aUs = 0, bUs = 0;
  double ratio = 1;  ///< B's time over A's
  /// What the 95% intervals of both medians allow; only of calls that were repeated.
  std::optional<MedianInterval> spread;
};

struct PerfComparison {
  std::string a, b;  ///< the files
  std::vector<ComparedRow> rows;
  std::vector<ComparedCall> onlyA, onlyB;
};

/// The repetitions of each call, microseconds.
using ComparedTimes = std::map<ComparedCall, std::vector<double>>;

/// What `tutti perf --json` wrote. Throws InvalidArgument naming `where` and the line that it would
/// not have written, or a call that is there twice.
ComparedTimes readPerf(std::istream& lines, const std::string& where);

/// Throws InvalidArgument for what cannot be read, and when the files have no call in common.
PerfComparison compareFiles(const std::string& a, const std::string& b);
PerfComparison compared(const ComparedTimes& a, const ComparedTimes& b);

std::string comparisonText(const PerfComparison& comparison);

}  // namespace tutti::tools
