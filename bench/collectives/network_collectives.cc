// AllReduce of float32 between hosts: Tutti by its transport tcp, sealed, and by UCX, and Gloo
// where it is installed. Hosts are network namespaces of this machine, one rank each, on one
// switch; what each sends passes a token bucket. Libraries take turns, block by block; a block is
// the median of its calls' times, each the slowest rank's. The limit is measured with them: plain
// TCP connections round a ring, which move 2 (n-1)/n of the message over every host's link at once,
// as any AllReduce has to. Printed: medians, the share that each reaches of the links' rate, and of
// either opponent the paired ratio with its 95% interval: of TCP that is the share of the measured
// limit.
//
//   network_collectives [--ranks 4] [--rate 1gbit] [--mtu 9000] [--min 1M] [--max 64M] [--blocks 7]
//                       [--delay MS] [--only tutti,tcp,gloo,sealed,ucx]
//
// --rate none has no token bucket; then shares are of the fastest. --delay makes what
// each host sends so many milliseconds late, by a long cable in the place of the token bucket.
// Names: tcp is plain TCP, sealed and ucx are Tutti.
//
// Ends with 77 where this machine cannot have such hosts.

#include <signal.h>
#include <tutti/version.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "job.h"
#include "src/tools/common/values.h"
#include "tests/support/network_hosts.h"

namespace {

using tutti::bench::Interval;
using tutti::bench::Job;
using tutti::bench::medianInterval;
using tutti::tests::NetworkHosts;

constexpr int kAttempts = 5;      // that a size has where it is to reach something
constexpr double kAsFast = 0.98;  // of another's time over ours, in the median

/// "1gbit" and "200mbit" as bytes a second; 0 of "none".
double bytesPerSecond(const std::string& rate) {
  if (rate == "none") return 0;
  size_t end = 0;
  const double value = std::stod(rate, &end);
  const std::string unit = rate.substr(end);
  if (unit == "gbit") return value * 1e9 / 8;
  if (unit == "mbit") return value * 1e6 / 8;
  throw std::runtime_error("--rate " + rate + " is not like 1gbit, 200mbit or none");
}

/// Who takes part: by which worker, and with which setting.
struct Contender {
  std::string name, worker;
  const char *variable = nullptr, *value = nullptr;
};
const Contender kContenders[] = {{"tutti", "tutti"},
                                 {"tcp", "tcp"},
                                 {"gloo", "gloo"},
                                 {"sealed", "tutti", "TUTTI_ENCRYPTION", "on"},
                                 {"ucx", "tutti", "TUTTI_TRANSPORT", "shm+ucx"}};

/// Nanoseconds that the links take at least.
double linkTime(uint64_t bytes, int ranks, double linkRate) {
  return 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes) / linkRate * 1e9;
}

/// What each library's blocks took, nanoseconds, Tutti's first.
struct Turns {
  std::vector<std::string> names;
  std::vector<std::vector<double>> times;

  double median(size_t library) const { return medianInterval(times[library]).median; }
  /// By how much longer it took than Tutti in the same block.
  Interval ratio(size_t library) const {
    std::vector<double> ratios;
    for (size_t block = 0; block < times[0].size(); ++block)
      ratios.push_back(times[library][block] / times[0][block]);
    return medianInterval(ratios);
  }
  /// A line. Returns whether it is what is required, in percent of the rate; 0: nothing is.
  bool print(uint64_t bytes, double atRate, double required) const {
    double best = atRate;
    for (size_t library = 0; atRate == 0 && library < times.size(); ++library)
      best = best == 0 ? median(library) : std::min(best, median(library));
    const auto share = [&](size_t library) { return 100 * best / median(library); };
    std::printf("%12llu", static_cast<unsigned long long>(bytes));
    for (size_t library = 0; library < times.size(); ++library)
      std::printf(" %12.3f %8.1f%%", median(library) / 1e6, share(library));
    bool reached = share(0) >= required, isSlower = false;
    for (size_t library = 1; library < times.size(); ++library) {
      const Interval i = ratio(library);
      std::printf("      %6.2f [%6.2f, %6.2f]", i.median, i.low, i.high);
      if (names[library] == "tcp")
        reached |= share(library) < required && i.median >= kAsFast;
      else if (names[library] == "gloo")
        isSlower |= i.median < kAsFast;
    }
    std::printf("\n");
    std::fflush(stdout);
    return required == 0 || (reached && !isSlower);
  }
};

Turns takeTurns(const std::vector<std::unique_ptr<Job>>& jobs, const worker_command& command,
                int blocks) {
  Turns turns{.times = std::vector<std::vector<double>>(jobs.size())};
  for (const auto& job : jobs) turns.names.push_back(job->name());
  for (int block = 0; block < blocks; ++block)
    for (size_t j = 0; j < jobs.size(); ++j) turns.times[j].push_back(jobs[j]->run(command));
  return turns;
}

}  // namespace

int main(int argc, char** argv) {
  int ranks = 4, blocks = 7, calls = 3, mtu = 9000;
  double required = 0, delayMs = 0;
  std::string rate = "1gbit", minText = "1M", maxText = "64M";
  std::vector<std::string> only{"tutti", "tcp", "gloo"};
  std::string bin = std::filesystem::canonical("/proc/self/exe").parent_path();
  CLI::App app{"AllReduce between hosts, against Gloo", "network_collectives"};
  app.set_version_flag("--version", "network_collectives (Tutti) " TUTTI_VERSION);
  app.add_option("--ranks", ranks, "hosts, with a rank each")->check(CLI::Range(2, 64));
  app.add_option("--rate", rate, "of each host's link, as tc writes it, or none");
  app.add_option("--delay", delayMs, "of what each host sends, milliseconds; needs a rate")
      ->check(CLI::Range(0, 1000));
  app.add_option("--mtu", mtu, "of each host's link")->check(CLI::Range(1280, 65535));
  app.add_option("--min", minText, "smallest message, bytes");
  app.add_option("--max", maxText, "largest message, bytes");
  app.add_option("--blocks", blocks, "turns of each library per size")->check(CLI::Range(6, 1000));
  app.add_option("--calls", calls, "timed calls per turn")->check(CLI::Range(1, 10000));
  app.add_option(
         "--require", required,
         "end with 1 unless every size reaches this percentage of the links' rate, or, where "
         "plain TCP does not, is as fast as that, and at least as fast as Gloo, both but for 2% "
         "of the median; each has five attempts")
      ->check(CLI::Range(0, 100));
  app.add_option("--only", only, "who takes part: tutti, tcp, gloo, sealed, ucx")->delimiter(',');
  app.add_option("--bin", bin, "where the workers are");
  CLI11_PARSE(app, argc, argv);
  ::signal(SIGPIPE, SIG_IGN);
  try {
    const double linkRate = bytesPerSecond(rate);
    if (delayMs > 0 && linkRate == 0) throw std::runtime_error("--delay needs a --rate");
    if (const auto reason = NetworkHosts::unavailable()) {
      std::printf("SKIPPED: %s\n", reason->c_str());
      return 77;
    }
    NetworkHosts::Link link{.rate = rate == "none" || delayMs > 0 ? "" : rate, .mtu = mtu};
    if (delayMs > 0)
      link.delayed = {.bytesPerSecond = linkRate,
                      .delay = std::chrono::microseconds(static_cast<int64_t>(delayMs * 1000))};
    const NetworkHosts hosts(ranks, link);
    const auto root = std::filesystem::temp_directory_path() /
                      ("tutti-network-bench-" + std::to_string(::getpid()));
    std::vector<std::unique_ptr<Job>> jobs;  // Tutti's first
    bool reached = true;
    for (const Contender& contender : kContenders) {
      const std::string& name = contender.name;
      if (std::ranges::find(only, name) == only.end()) continue;
      const std::string worker = bin + "/" + contender.worker + "_worker";
      if (!std::filesystem::exists(worker)) {
        if (required > 0)
          throw std::runtime_error("--require needs " + worker +
                                   ", which is built where Gloo is found (Debian's libgloo-dev)");
        continue;
      }
      std::vector<tutti::bench::Process> processes;
      std::vector<std::string> command{worker};
      if (contender.worker == "gloo") command.push_back("eth0");  // of each host
      for (int rank = 0; rank < ranks; ++rank)
        processes.push_back({command, [&hosts, &contender, rank, ranks] {
                               hosts.enter(rank);
                               if (contender.variable)
                                 ::setenv(contender.variable, contender.value, 1);
                               ::setenv("TUTTI_RANK", std::to_string(rank).c_str(), 1);
                               ::setenv("TUTTI_WORLD_SIZE", std::to_string(ranks).c_str(), 1);
                               const auto port = 29530 + (&contender - kContenders);
                               const std::string at = hosts.address(0) + ":" + std::to_string(port);
                               ::setenv("TUTTI_ADDRESS", at.c_str(), 1);
                               ::setenv("TUTTI_JOB_ID", contender.name.c_str(), 1);
                               ::setenv("TUTTI_JOB_KEY", "of this benchmark alone", 1);
                               ::setenv("TUTTI_BENCH_NEXT",
                                        hosts.address((rank + 1) % ranks).c_str(), 1);
                             }});
      jobs.push_back(std::make_unique<Job>(name, processes, ranks, root / name));
    }
    std::printf("# AllReduce float32, %d hosts at %s with %g ms, MTU %d, %d blocks of %d calls\n",
                ranks, rate.c_str(), delayMs, mtu, blocks, calls);
    std::printf("#%11s", "bytes");
    for (const auto& job : jobs) std::printf(" %12s %9s", (job->name() + " ms").c_str(), "of rate");
    for (size_t j = 1; j < jobs.size(); ++j)
      std::printf(" %28s", (jobs[j]->name() + " ratio [95%]").c_str());
    std::printf("\n");
    const uint64_t least = tutti::tools::parseBytes("--min", minText);
    const uint64_t most = tutti::tools::parseBytes("--max", maxText);
    for (uint64_t bytes = least; bytes <= most; bytes *= 2) {
      bool sizeReached = false;
      for (int attempt = 0; attempt < (required > 0 ? kAttempts : 1) && !sizeReached; ++attempt) {
        const Turns turns = takeTurns(jobs, {bytes, static_cast<uint32_t>(calls), 1}, blocks);
        sizeReached =
            turns.print(bytes, linkRate == 0 ? 0 : linkTime(bytes, ranks, linkRate), required);
      }
      reached &= sizeReached;
    }
    jobs.clear();
    std::filesystem::remove_all(root);
    if (!reached) std::fprintf(stderr, "network_collectives: not what --require asks for\n");
    return reached ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "network_collectives: %s\n", e.what());
    return 1;
  }
}
