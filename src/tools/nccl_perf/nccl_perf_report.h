#pragma once

// The table of the programs with nccl-tests' names, column by column as there, and the same as
// JSON.

#include <string>
#include <vector>

#include "src/tools/nccl_perf/nccl_perf_options.h"
#include "src/tools/perf/perf_report.h"

namespace tutti::tools {

/// A line of the table.
struct NcclPerfRow {
  DataType type;
  ReduceOp op;
  int root;
  PerfRow times;
};

/// `communicator` is what it says of itself.
std::string ncclPerfHeader(const NcclPerfOptions& options, const std::string& communicator);
std::string ncclPerfLine(const NcclPerfOptions& options, const NcclPerfRow& row);
/// One object, with nccl-tests' keys where it has them.
std::string ncclPerfJson(const NcclPerfOptions& options, int ranks,
                         const std::vector<NcclPerfRow>& rows, const PerfTotals& totals);

}  // namespace tutti::tools
