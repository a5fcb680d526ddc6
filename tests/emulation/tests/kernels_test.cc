// The kernels of kernels/, each in a process of its own: the right ones end with status 0 in every
// build and under every seed; of each bug the table says which builds see it. A build has caught a
// bug when under one of three seeds the result is wrong, or the emulation or a sanitizer ends it.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/emulation/kernels/exchange_device.cuh"
#include "tests/emulation/kernels/mma_gemm_device.cuh"
#include "tests/emulation/kernels/ring_device.cuh"
#include "tests/emulation/kernels/rows_device.cuh"
#include "tests/emulation/kernels/wgmma_gemm_device.cuh"
#include "tests/support/run_program.h"
#include "tests/support/test_main.h"

namespace tutti::emulation::kernels {
namespace {

enum Builds : unsigned { Plain = 1, Address = 2, Thread = 4, All = 7 };

struct Build {
  Builds which;
  std::string program;
};

/// plain=PROGRAM address=PROGRAM thread=PROGRAM, those that there are in this build folder.
std::vector<std::string> programs;
const tests::Arguments commandLine{{"[BUILD=PROGRAM...]", &programs}};

std::vector<Build> builds() {
  std::vector<Build> all;
  for (const std::string& argument : programs) {
    const size_t at = argument.find('=');
    const std::string name = argument.substr(0, at);
    const Builds which = name == "address" ? Address : name == "thread" ? Thread : Plain;
    if (at != std::string::npos) all.push_back({which, argument.substr(at + 1)});
  }
  return all;
}

/// A sanitizer ends at its first report, and does not look for leaks of what lives for ever.
const tests::Runner runner([] {
  setenv("TSAN_OPTIONS", "halt_on_error=1 atexit_sleep_ms=0", 1);
  setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
  return RUN_ALL_TESTS();
});

constexpr const char* kKernels[] = {"ring", "ll",         "ll128",    "rmsnorm",
                                    "grid", "last_block", "mma_gemm", "wgmma_gemm"};

struct Bug {
  const char* kernel;
  int number;
  const char* what;
  unsigned seenBy;  // Builds
};

#define TUTTI_BUG(kernel, Enum, name, seenBy) \
  { kernel, static_cast<int>(Enum::name), #name, seenBy }
const Bug kBugs[] = {TUTTI_BUG("ring", RingBug, NoBarrierBeforeFlag, Thread),
                     TUTTI_BUG("ring", RingBug, RelaxedFlag, Thread),
                     TUTTI_BUG("ring", RingBug, RelaxedLoad, Thread),
                     TUTTI_BUG("ring", RingBug, NoCredit, Thread),
                     TUTTI_BUG("ring", RingBug, TailDropped, All),
                     TUTTI_BUG("ring", RingBug, NoBarrierBeforeCredit, Thread),
                     TUTTI_BUG("ll", ExchangeBug, OneFlagChecked, Plain),
                     TUTTI_BUG("ll", ExchangeBug, OneSlot, Plain),
                     TUTTI_BUG("ll", ExchangeBug, OldFlag, Plain | Thread),
                     TUTTI_BUG("ll", ExchangeBug, UnalignedMessages, All),
                     TUTTI_BUG("ll128", ExchangeBug, OldFlag, Plain | Thread),
                     TUTTI_BUG("ll128", ExchangeBug, LanesApart, Plain),
                     TUTTI_BUG("ll128", ExchangeBug, NoVote, Plain | Thread),
                     TUTTI_BUG("rmsnorm", RowsBug, NoBarrierAfterSums, Plain | Thread),
                     TUTTI_BUG("rmsnorm", RowsBug, OneTooMany, Address),
                     TUTTI_BUG("rmsnorm", RowsBug, OneTooManyShared, Address),
                     TUTTI_BUG("rmsnorm", RowsBug, DivergentBarrier, All),
                     TUTTI_BUG("rmsnorm", RowsBug, LaneLeftOut, All),
                     TUTTI_BUG("grid", RowsBug, NoGridSync, Plain | Thread),
                     TUTTI_BUG("last_block", RowsBug, FenceForgotten, Thread),
                     TUTTI_BUG("last_block", RowsBug, MisalignedVector, All),
                     TUTTI_BUG("mma_gemm", MmaBug, OneGroupTooFew, All),
                     TUTTI_BUG("mma_gemm", MmaBug, HalvesExchanged, All),
                     TUTTI_BUG("mma_gemm", MmaBug, NoBarrierBeforeRefill, Thread),
                     TUTTI_BUG("mma_gemm", MmaBug, NoBarrierAfterCopies, Plain | Thread),
                     TUTTI_BUG("mma_gemm", MmaBug, NoZeroFill, Plain | Address),
                     TUTTI_BUG("mma_gemm", MmaBug, CopyForgotten, All),
                     TUTTI_BUG("wgmma_gemm", WgmmaBug, NoWaitForEmpty, All),
                     TUTTI_BUG("wgmma_gemm", WgmmaBug, WrongParity, All),
                     TUTTI_BUG("wgmma_gemm", WgmmaBug, ReleasedEarly, Thread),
                     TUTTI_BUG("wgmma_gemm", WgmmaBug, TooFewBytes, All),
                     TUTTI_BUG("wgmma_gemm", WgmmaBug, WrongStep, All),
                     TUTTI_BUG("wgmma_gemm", WgmmaBug, NoProxyFence, Thread),
                     TUTTI_BUG("wgmma_gemm", WgmmaBug, NoWaitForResults, All),
                     TUTTI_BUG("wgmma_gemm", WgmmaBug, StoreNotWaited, All),
                     TUTTI_BUG("wgmma_gemm", WgmmaBug, ReleasedHereOnly, Thread),
                     TUTTI_BUG("wgmma_gemm", WgmmaBug, LeftEarly, All),
                     TUTTI_BUG("wgmma_gemm", WgmmaBug, NoFence, All),
                     TUTTI_BUG("wgmma_gemm", WgmmaBug, NoBarrierFence, All),
                     TUTTI_BUG("wgmma_gemm", WgmmaBug, NoBarrierBeforeStore, Plain | Thread),
                     TUTTI_BUG("wgmma_gemm", WgmmaBug, OneThreadTooMany, All)};
#undef TUTTI_BUG

constexpr int kUnknown = 2;  // the program knows no such kernel, or no such bug of it

tests::Output run(const Build& build, const char* kernel, int bug, int seed) {
  return tests::runProgram("TUTTI_EMULATION_SEED=" + std::to_string(seed) +
                           " TUTTI_EMULATION_TIMEOUT=" + (bug == 0 ? "60 " : "1 ") + build.program +
                           " " + kernel + " " + std::to_string(bug));
}

TEST(Kernels, AreRightInEveryBuildUnderEverySeed) {
  for (const Build& build : builds())
    for (const char* const kernel : kKernels)
      for (int seed = 0; seed <= 3; ++seed) {
        const tests::Output output = run(build, kernel, 0, seed);
        EXPECT_EQ(output.exitCode, 0)
            << build.program << " " << kernel << " with seed " << seed << ":\n"
            << output.text.substr(0, 3000);
      }
}

/// The first of three seeds under which the bug shows, or 0.
int seedThatCatches(const Build& build, const Bug& bug) {
  for (int seed = 1; seed <= 3; ++seed) {
    const tests::Output output = run(build, bug.kernel, bug.number, seed);
    EXPECT_NE(output.exitCode, kUnknown) << output.text;
    if (output.exitCode != 0) return seed;
  }
  return 0;
}

TEST(Kernels, BugsAreCaught) {
  int expected = 0;
  for (const Build& build : builds())
    for (const Bug& bug : kBugs) {
      if ((bug.seenBy & build.which) == 0) continue;
      ++expected;
      const int seed = seedThatCatches(build, bug);
      EXPECT_GT(seed, 0) << build.program << " does not see " << bug.kernel << " " << bug.what;
    }
  EXPECT_GT(expected, 0);
  printf("%d bugs in %zu builds\n", expected, builds().size());
}

TEST(Kernels, HaveABuildThatSeesEachBug) {
  EXPECT_GE(std::size(kBugs), 25u);
  for (const Bug& bug : kBugs) EXPECT_NE(bug.seenBy, 0u) << bug.kernel << " " << bug.what;
}

}  // namespace
}  // namespace tutti::emulation::kernels
