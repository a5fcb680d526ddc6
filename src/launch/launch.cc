#include <tutti/communicator.h>
#include <tutti/launch.h>

#include <sys/resource.h>

#include <cstdio>
#include <cstring>

#include "src/base/check.h"
#include "src/launch/environment.h"
#include "src/launch/job.h"

namespace tutti {
namespace {

constexpr int kMaxRanks = 4096;
// Two pipes, the process itself, and its connection to the meeting point, which is here.
constexpr int kDescriptorsPerRank = 4;
constexpr int kOwnDescriptors = 64;

void check(const LaunchOptions& options) {
  TUTTI_REQUIRE(!options.command.empty() && !options.command[0].empty(),
                "launch() needs a program to run");
  TUTTI_REQUIRE(options.ranks >= 1 && options.ranks <= kMaxRanks, "launch() was asked for ",
                options.ranks, " ranks; it starts 1 to ", kMaxRanks, " on one host");
  TUTTI_REQUIRE(options.gracePeriod.count() >= 0,
                "the grace period is negative: ", options.gracePeriod.count(), " ms");
  rlimit limit = {};
  TUTTI_SYSCALL(getrlimit(RLIMIT_NOFILE, &limit));
  const rlim_t needed = static_cast<rlim_t>(options.ranks) * kDescriptorsPerRank + kOwnDescriptors;
  TUTTI_REQUIRE(limit.rlim_cur == RLIM_INFINITY || needed <= limit.rlim_cur, options.ranks,
                " ranks need ", needed,
                " open files in the launcher, but the limit (ulimit -n) is ", limit.rlim_cur);
}

}  // namespace

int launch(const LaunchOptions& options) {
  check(options);
  const launcher::Program program = launcher::findProgram(options.command[0]);
  if (program.error != 0) {
    std::fprintf(stderr, "tutti run: cannot execute %s: %s\n", options.command[0].c_str(),
                 strerrordesc_np(program.error));
    return program.error == ENOENT || program.error == ENOTDIR ? 127 : 126;
  }
  const std::string id = options.uniqueId.empty() ? UniqueId::create(UniqueId::Reach::Host).toHex() : options.uniqueId;
  return launcher::Job(options, program.path, id).run();
}

}  // namespace tutti
