#include "src/tools/nccl_perf/nccl_perf.h"

#include <cstdlib>
#include <optional>

#include <tutti/launch.h>

#include "src/base/check.h"
#include "src/tools/common/command_line.h"
#include "src/tools/common/output_file.h"
#include "src/tools/nccl_perf/nccl_perf_options.h"
#include "src/tools/nccl_perf/nccl_perf_ranks.h"
#include "src/tools/nccl_perf/nccl_perf_run.h"

namespace tutti::tools {
namespace {

std::string_view nameOf(std::string_view program) {
  return program.substr(program.find_last_of('/') + 1);
}

/// What nccl-tests would do otherwise because of them is not done here: better said than ignored.
void refuseVariables() {
  for (const char* name :
       {"NCCL_TESTS_SPLIT", "NCCL_TESTS_SPLIT_MASK", "NCCL_TESTS_DEVICE", "NCCL_TESTS_MIN_BW"})
    TUTTI_REQUIRE(!std::getenv(name), name, " is set, and has no meaning here: unset it");
}

int measure(const NcclPerfOptions& options) {
  refuseVariables();
  // Before joining, so that nobody is kept waiting by a file that cannot be written.
  const auto launched = launchedRank();
  std::optional<OutputFile> json;
  if (!options.jsonFile.empty() && (!launched || launched->rank == 0))
    json.emplace("-J", options.jsonFile);
  const int code =
      onRanks({.count = options.ranksHere(),
               .join = options.parallelInit,
               .timeout = options.timeout,
               .device = options.perf.device},
              [&](Communicator& c) {
                const bool writes = json && c.rank() == 0;
                return runNcclPerf(c, options,
                                   {.table = isStandardOutput(options.jsonFile) ? stderr : stdout,
                                    .json = writes ? &json->stream() : nullptr});
              });
  if (json) json->commit();
  return code;
}

}  // namespace

bool isNcclPerf(std::string_view program) { return collectiveOf(nameOf(program)).has_value(); }

int ncclPerfMain(int argc, char** argv) {
  const std::string program(nameOf(argv[0]));
  std::vector<const char*> words(argv, argv + argc);
  words[0] = program.c_str();
  // Kernels of ranks as threads wait for each other, so none may be behind another in a queue of
  // the GPU. CUDA reads it when it begins, which is when --device is looked at.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  return runProgram<NcclPerfOptions>(
      program, [&] { return parseNcclPerf(argc, words.data()); }, measure);
}

}  // namespace tutti::tools
