#include "src/base/known_variables.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <mutex>

#include "src/base/log.h"
#include "src/base/nearest_name.h"
#include "src/base/printable.h"

namespace tutti::base {
namespace {

// A test compares both lists with the pages and with what the sources read (tests/repository).

constexpr std::string_view kKnown[] = {
    "TUTTI_ADDRESS",
    "TUTTI_ALGORITHM",
    "TUTTI_ALGORITHM_FILE",
    "TUTTI_ALLOW_UNAUTHENTICATED",
    "TUTTI_ATTENTION",
    "TUTTI_BUILD_DIR",
    "TUTTI_DETERMINISTIC",
    "TUTTI_EMULATION_CUDA_VISIBLE_DEVICES",
    "TUTTI_EMULATION_DEVICES",
    "TUTTI_EMULATION_TIMEOUT",
    "TUTTI_ENCRYPTION",
    "TUTTI_GEMM",
    "TUTTI_GEMM_TABLE",
    "TUTTI_GPU_BLOCKS",
    "TUTTI_GPU_COPIES",
    "TUTTI_GPU_DIRECT",
    "TUTTI_GPU_IPC",
    "TUTTI_GRAPHS",
    "TUTTI_INTERFACE",
    "TUTTI_JOB_ID",
    "TUTTI_JOB_KEY",
    "TUTTI_LOCAL_RANK",
    "TUTTI_LOG",
    "TUTTI_MEMORY_BOUND",
    "TUTTI_POISON_SCRATCH",
    "TUTTI_RANK",
    "TUTTI_RECONNECT_MS",
    "TUTTI_RESTART",
    "TUTTI_SETUP_TIMEOUT_MS",
    "TUTTI_SHM_ATTACH",
    "TUTTI_SLOT_BYTES",
    "TUTTI_STRAGGLER_MS",
    "TUTTI_TCP_STREAMS",
    "TUTTI_TIMEOUT_MS",
    "TUTTI_TORCH_CACHE",
    "TUTTI_TRAFFIC_CLASS",
    "TUTTI_TRANSPORT",
    "TUTTI_TUNING",
    "TUTTI_UNIQUE_ID",
    "TUTTI_WORLD_SIZE",
};

constexpr std::string_view kDevelopers[] = {
    // Options of the build, which make exports.
    "TUTTI_BENCH",
    "TUTTI_CUDA",
    "TUTTI_CUDA_ARCHITECTURES",
    "TUTTI_NCCL_HEADERS",
    "TUTTI_PACKAGE_CONTACT",
    "TUTTI_PYTHON",
    "TUTTI_SANITIZE",
    "TUTTI_TESTS",
    // Of the emulation.
    "TUTTI_EMULATION_LAZY_LOADING",
    "TUTTI_EMULATION_LOCKED_WAITS",
    "TUTTI_EMULATION_MEMORY",
    "TUTTI_EMULATION_PEERS",
    "TUTTI_EMULATION_PENDING",
    "TUTTI_EMULATION_PROCESSORS",
    "TUTTI_EMULATION_SEED",
    "TUTTI_EMULATION_STACK",
    "TUTTI_EMULATION_VISIBLE_DEVICES",
    "TUTTI_EMULATION_WORKERS",
    // Of tests and benchmarks.
    "TUTTI_BENCH_NEXT",
    "TUTTI_FUZZ_CASES",
    "TUTTI_TEST_CASE_SECONDS",
    "TUTTI_TEST_FAIL",
    "TUTTI_TEST_KILLS",
    "TUTTI_TEST_SEED",
    "TUTTI_TEST_SLOWNESS",
};

constexpr std::string_view kPrefix = "TUTTI_";

/// The prefix says nothing about which one is near. In brackets: it stands in a list.
std::string meant(std::string_view name) {
  std::vector<std::string_view> rests(std::begin(kKnown), std::end(kKnown));
  for (std::string_view& rest : rests) rest.remove_prefix(kPrefix.size());
  name.remove_prefix(kPrefix.size());
  const auto nearest = nearestName(name, std::span<const std::string_view>(rests));
  return nearest ? message(" (did you mean ", kPrefix, *nearest, "?)") : "";
}

}  // namespace

std::span<const std::string_view> knownVariables() { return kKnown; }
std::span<const std::string_view> developersVariables() { return kDevelopers; }

std::vector<std::string> unknownVariables(const char* const* environment) {
  std::vector<std::string> found;
  for (const char* const* entry = environment; entry && *entry; ++entry) {
    const std::string_view line = *entry;
    const std::string_view name = line.substr(0, line.find('='));
    if (!name.starts_with(kPrefix) || std::ranges::count(kKnown, name) > 0 ||
        std::ranges::count(kDevelopers, name) > 0)
      continue;
    found.push_back(printable(name) + meant(name));
  }
  std::ranges::sort(found);
  return found;
}

void warnOfUnknownVariables() {
  static std::once_flag once;
  std::call_once(once, [] {
    std::string names;
    for (const std::string& each : unknownVariables(environ))
      names += (names.empty() ? "" : ", ") + each;
    if (!names.empty())
      log(LogLevel::Warning, "variables without a meaning here, ignored: ", names);
  });
}

}  // namespace tutti::base
