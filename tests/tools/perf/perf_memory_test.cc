// Memory that one rank alone cannot have, processes of their own each: all ranks end with that
// rank, how much it wanted and what for, long before a deadline.

#include <sys/resource.h>

#include <gtest/gtest.h>

#include <fstream>

#include <tutti/tutti.h>

#include "src/tools/nccl_perf/nccl_perf_options.h"
#include "src/tools/nccl_perf/nccl_perf_run.h"
#include "src/tools/perf/perf_run.h"
#include "tests/support/outcome.h"
#include "tests/support/rank_processes.h"
#include "tests/support/sanitized.h"

namespace tutti::tools {
namespace {

using namespace std::chrono_literals;
using tests::RankProcesses;

constexpr uint64_t kBytes = uint64_t{64} << 20;
constexpr rlim_t kSpared = rlim_t{16} << 20;

/// Leaves this process so little room for addresses that the buffers have no place.
void limitAddresses() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t limit = pages * 4096 + kSpared;
  const rlimit both{limit, limit};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &both), 0);
}

void expectAllNameRankOne(const std::string& wanted,
                          const std::function<void(Communicator&)>& measure) {
  if (tests::kSanitized) GTEST_SKIP() << "a sanitizer has most of the addresses for itself";
  RankProcesses ranks(3, [&](const RankProcesses::Context& context) {
    Communicator c = context.join({.timeout = 60s});
    if (context.rank == 1) limitAddresses();
    const tests::Outcome outcome = tests::outcomeOf([&] { measure(c); });
    context.say(outcome.text);
    return outcome.code == ErrorCode::OutOfMemory ? 0 : 1;
  });
  EXPECT_TRUE(ranks.allSucceed(30s));
  for (int rank = 0; rank < 3; ++rank)
    for (const std::string& part : {"buffers for all_reduce of 67108864 bytes: rank 1 (pid " +
                                        std::to_string(ranks.pid(1)) + " on host ",
                                    wanted})
      EXPECT_NE(ranks.output(rank).find(part), std::string::npos)
          << part << " in: " << ranks.output(rank);
}

void perf(Communicator& c, bool windows) {
  PerfOptions options{.collectiveName = "all_reduce", .windows = windows};
  options.minBytes = options.maxBytes = kBytes;
  std::FILE* const nowhere = std::fopen("/dev/null", "w");
  runPerf(c, options, {.table = nowhere});
}

TEST(PerfMemory, OfOneRankIsNamedToAll) {
  expectAllNameRankOne("67108864 bytes of ordinary memory for a buffer cannot be had",
                       [](Communicator& c) { perf(c, false); });
}

TEST(PerfMemory, OfAWindowToo) {
  expectAllNameRankOne("67108864", [](Communicator& c) { perf(c, true); });
}

TEST(PerfMemory, OfTheProgramsWithNcclTestsNamesToo) {
  expectAllNameRankOne("67108864 bytes of ordinary memory", [](Communicator& c) {
    const char* words[] = {"all_reduce_perf", "-b", "64M", "-e", "64M"};
    const auto parsed = parseNcclPerf(5, words);
    std::FILE* const nowhere = std::fopen("/dev/null", "w");
    runNcclPerf(c, std::get<NcclPerfOptions>(parsed), {.table = nowhere});
  });
}

}  // namespace
}  // namespace tutti::tools
