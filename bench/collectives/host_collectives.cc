// Two ranks, AllReduce of float32, against Open MPI and MPICH where they are installed. All jobs
// are started first; for each size they take turns, block by block, and a block's ratio is between
// neighbours in time. A block is the median of its calls' times, each the slower rank's. Buffers
// are rewritten and read by their owner between calls. Printed: medians in microseconds, and for
// each opponent the median of the paired ratios with its 95% interval. The opponents' temporaries
// are kept resident (GLIBC_TUNABLES), which makes them faster. Each row begins with the one-way
// latency of a flag between two threads at that moment: virtual machines move their cores near and
// far, and results in the caches move with them.
//
//   host_collectives [--min 64K] [--max 64M] [--blocks 15] [--calls 20] [--bin DIRECTORY]

#include <sched.h>
#include <signal.h>
#include <tutti/version.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "job.h"
#include "src/tools/common/values.h"

namespace {

using tutti::bench::Interval;
using tutti::bench::Job;
using tutti::bench::medianInterval;

constexpr int kRanks = 2;
// Nanoseconds that a flag takes from one thread to another: the best of a few thousand round trips
// a turn, so that a turn in which the two shared a core does not count.
double flagLatencyNs() {
  constexpr int kTurns = 8, kRounds = 2000;
  alignas(128) std::atomic<int> there = 0;
  alignas(128) std::atomic<int> back = 0;
  const auto await = [](const std::atomic<int>& flag, int value) {
    for (int spins = 0; flag.load(std::memory_order_acquire) != value; ++spins)
      if (spins > 1000) ::sched_yield();
  };
  std::thread other([&] {
    for (int i = 1; i <= kTurns * kRounds; ++i) {
      await(there, i);
      back.store(i, std::memory_order_release);
    }
  });
  double best = HUGE_VAL;
  for (int turn = 0; turn < kTurns; ++turn) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = turn * kRounds + 1; i <= (turn + 1) * kRounds; ++i) {
      there.store(i, std::memory_order_release);
      await(back, i);
    }
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
    best = std::min(best, taken.count() / (2 * kRounds));
  }
  other.join();
  return best;
}

// The opponents' temporaries stay resident; and Open MPI agrees to run as root.
void keepTemporaries() {
  ::setenv("GLIBC_TUNABLES",
           "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=4294967296", 1);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
}

}  // namespace

int main(int argc, char** argv) {
  std::string minText = "64K", maxText = "64M";
  std::string bin = std::filesystem::canonical("/proc/self/exe").parent_path();
  int blocks = 15, calls = 20;
  CLI::App app{"AllReduce on two ranks of this host, against MPI", "host_collectives"};
  app.set_version_flag("--version", "host_collectives (Tutti) " TUTTI_VERSION);
  app.add_option("--min", minText, "smallest message, bytes");
  app.add_option("--max", maxText, "largest message, bytes");
  app.add_option("--blocks", blocks, "turns of each library per size")->check(CLI::Range(6, 1000));
  app.add_option("--calls", calls, "timed calls per turn")->check(CLI::Range(1, 10000));
  app.add_option("--bin", bin, "where the workers and the tutti command are");
  CLI11_PARSE(app, argc, argv);
  ::signal(SIGPIPE, SIG_IGN);
  try {
    const uint64_t least = tutti::tools::parseBytes("--min", minText);
    const uint64_t most = tutti::tools::parseBytes("--max", maxText);
    const auto root =
        std::filesystem::temp_directory_path() / ("tutti-bench-" + std::to_string(::getpid()));
    const auto exists = [&](const char* name) { return std::filesystem::exists(bin + "/" + name); };
    std::vector<std::unique_ptr<Job>> jobs;
    const auto add = [&](const std::string& name, std::vector<std::string> command) {
      auto job = std::make_unique<Job>(
          name, std::vector{tutti::bench::Process{std::move(command), keepTemporaries}}, kRanks,
          root / name);
      try {
        job->run({least, 1, 1});
      } catch (const std::exception&) {
        if (jobs.empty()) throw;
        std::printf("# %s is not measured: it does not run here\n", name.c_str());
        return;
      }
      jobs.push_back(std::move(job));
    };
    add("tutti", {bin + "/tutti", "run", "--no-prefix", "-n", "2", "--", bin + "/tutti_worker"});
    if (exists("openmpi_worker")) {
      const std::vector<std::string> mpirun = {
          "mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-n", "2"};
      auto plain = mpirun, ucx = mpirun;
      for (const char* word : {"--mca", "pml", "ob1"}) plain.push_back(word);
      for (const char* word : {"--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca",
                               "pml_ucx_devices", "any", "-x", "UCX_TLS=shm,self"})
        ucx.push_back(word);
      plain.push_back(bin + "/openmpi_worker");
      ucx.push_back(bin + "/openmpi_worker");
      add("openmpi", plain);
      add("openmpi+ucx", ucx);
    }
    if (exists("mpich_worker")) add("mpich", {"mpiexec.mpich", "-n", "2", bin + "/mpich_worker"});
    if (jobs.size() == 1)
      std::printf("# neither Open MPI nor MPICH was found when this was built\n");
    std::printf(
        "# AllReduce float32, 2 ranks, %d blocks of %d calls; ratios are opponent / tutti\n#%11s "
        "%8s",
        blocks, calls, "bytes", "flag ns");
    for (const auto& job : jobs) std::printf(" %14s", (job->name() + " us").c_str());
    for (size_t j = 1; j < jobs.size(); ++j)
      std::printf(" %28s", (jobs[j]->name() + " ratio [95%]").c_str());
    std::printf("\n");
    bool fasterEverywhere = true;
    for (uint64_t bytes = least; bytes <= most; bytes *= 2) {
      const double flagNs = flagLatencyNs();
      std::vector<std::vector<double>> times(jobs.size());
      for (int block = 0; block < blocks; ++block)
        for (size_t j = 0; j < jobs.size(); ++j)
          times[j].push_back(jobs[j]->run(
              {bytes, static_cast<uint32_t>(calls), static_cast<uint32_t>(block == 0 ? 10 : 2)}));
      std::printf("%12llu %8.0f", static_cast<unsigned long long>(bytes), flagNs);
      for (const auto& t : times) std::printf(" %14.2f", medianInterval(t).median / 1e3);
      for (size_t j = 1; j < jobs.size(); ++j) {
        std::vector<double> ratios;
        for (int block = 0; block < blocks; ++block)
          ratios.push_back(times[j][block] / times[0][block]);
        const Interval i = medianInterval(ratios);
        fasterEverywhere &= i.low > 1;
        std::printf("      %6.2f [%6.2f, %6.2f]", i.median, i.low, i.high);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
    std::printf("# faster than every opponent at every size: %s\n", jobs.size() == 1
                                                                        ? "nobody to compare with"
                                                                    : fasterEverywhere ? "yes"
                                                                                       : "NO");
    jobs.clear();
    std::filesystem::remove_all(root);
    return fasterEverywhere ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "host_collectives: %s\n", e.what());
    return 1;
  }
}
