#include <tutti/communicator.h>
#include <tutti/launch.h>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "src/base/check.h"
#include "src/base/env.h"
#include "src/bootstrap/rendezvous_server.h"
#include "src/launch/descriptors.h"
#include "src/launch/environment.h"
#include "src/launch/job.h"

namespace tutti {
namespace {

using launcher::Job;
using launcher::LaunchedProgram;
using launcher::Outlets;
using launcher::SignalCollector;

constexpr int kMaxRanks = 4096;
constexpr int kMaxRestarts = 1000;

void check(const LaunchOptions& options) {
  TUTTI_REQUIRE(!options.command.empty() && !options.command[0].empty(),
                "launch() needs a program to run");
  TUTTI_REQUIRE(options.ranks >= 1 && options.ranks <= kMaxRanks, "launch() was asked for ",
                options.ranks, " ranks; it starts 1 to ", kMaxRanks, " on one host");
  TUTTI_REQUIRE(options.gracePeriod.count() >= 0,
                "the grace period is negative: ", options.gracePeriod.count(), " ms");
  TUTTI_REQUIRE(options.outputTimeout.count() >= 0,
                "the timeout of output is negative: ", options.outputTimeout.count(), " ms");
  TUTTI_REQUIRE(options.restarts >= 0 && options.restarts <= kMaxRestarts,
                "launch() was asked for ", options.restarts, " restarts; it makes 0 to ",
                kMaxRestarts);
  TUTTI_REQUIRE(options.restarts == 0 || options.uniqueId.empty(),
                "every attempt of a job with restarts has an id of its own, and one was given");
  TUTTI_REQUIRE(!options.keepGoing || options.restarts == 0,
                "a job whose ranks keep going when one fails is not started again, and ",
                options.restarts, " restarts were asked for");
  rlimit limit = {};
  TUTTI_SYSCALL(getrlimit(RLIMIT_NOFILE, &limit));
  const rlim_t needed = launcher::launcherDescriptors(options.ranks);
  TUTTI_REQUIRE(limit.rlim_cur == RLIM_INFINITY || needed <= limit.rlim_cur, options.ranks,
                " ranks need ", needed,
                " open files in the launcher, but the limit (ulimit -n) is ", limit.rlim_cur);
}

/// One attempt. The rendezvous, if it is ours, ends with it: ranks that died before all had met
/// would leave it waiting for the others.
Job::Outcome runOnce(const LaunchOptions& options, const std::string& path, int restart,
                     SignalCollector& signals) {
  if (!options.uniqueId.empty())
    return Job(options, path, options.uniqueId, restart, signals).run();
  const bootstrap::Rendezvous point = bootstrap::randomRendezvous();
  const bootstrap::RendezvousServer server(point,
                                           std::chrono::milliseconds(base::env().setupTimeoutMs));
  return Job(options, path, bootstrap::encode(point).toHex(), restart, signals).run();
}

}  // namespace

int launch(const LaunchOptions& options) {
  check(options);
  const LaunchedProgram program = launcher::findProgram(options.command[0]);
  if (program.error != 0) {
    std::fprintf(stderr, "tutti run: cannot execute %s: %s\n", options.command[0].c_str(),
                 strerrordesc_np(program.error));
    return program.error == ENOENT || program.error == ENOTDIR ? 127 : 126;
  }
  SignalCollector signals;  // for all attempts: a signal between two of them counts
  for (int restart = 0;; ++restart) {
    const Job::Outcome outcome = runOnce(options, program.path, restart, signals);
    if (!outcome.again) return outcome.exitCode;
    if (std::ranges::any_of(signals.take(), launcher::endsJob, &launcher::ReceivedSignal::number)) {
      Outlets outlets(STDOUT_FILENO, STDERR_FILENO);  // signals are held: nothing may block here
      outlets.add(1, "tutti run: it does not: this process was told to end\n");
      outlets.flush();
      return outcome.exitCode;
    }
  }
}

}  // namespace tutti
