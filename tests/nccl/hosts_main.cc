// nccl_hosts: programs of NCCL's kind over several hosts, which are network namespaces. Rank r of a
// case is on host r mod their number, and the id comes to it from rank 0 by memory that they share,
// as it would by MPI. Cases of threads, or of one rank, tell nothing new and are left out.

#include <cstdio>
#include <cstdlib>
#include <string>

#include <nccl.h>

#include <tutti/error.h>

#include "tests/nccl/hosts.h"
#include "tests/support/leftovers.h"
#include "tests/support/network_hosts.h"

namespace {

using tutti::tests::NetworkHosts;

/// Of the case at hand. They may not be destroyed at the exit of a case's process.
const NetworkHosts* network = nullptr;
int hostCount = 0;

void enterHostOf(int rank) { network->enter(rank % hostCount); }
void unplug(int host) { network->unplug(host); }

/// What a host has received over an interface so far.
int64_t receivedBytes(int host, const std::string& interface) {
  return std::stoll(
      network->run(host, {"cat", "/sys/class/net/" + interface + "/statistics/rx_bytes"}));
}

/// A case, or all whose names begin so. Names are beginnings, so that some are run too that send
/// nothing.
struct Run {
  const char* name;
  int hosts = 2;
  int64_t leastBytes = 10'000;  ///< that each host receives
  const char* variable = nullptr;
  const char* value = nullptr;
  const char* interface = NetworkHosts::kInterface;  ///< by which the data comes
};

constexpr Run kRuns[] = {
    {"life/splits"},
    {"life/shrinks"},
    {"life/nonblocking"},
    {"collectives/reductions"},
    {"collectives/movements"},
    {"life/splits", 2, 10'000, "NCCL_SOCKET_IFNAME", "tun", NetworkHosts::kTunnel},
    {"collectives/", 1, 10'000, "NCCL_SHM_DISABLE", "1", "lo"},
    {"failure/"},
#if NCCL_VERSION_CODE >= 22902
    {"grow/processes", 3, 500},
    {"grow/an_existing", 3, 500},
    {"grow/a_new_rank_dies", 3, 500},
    {"grow/replaces", 4, 500},
#endif
#if NCCL_VERSION_CODE >= 23203
    {"one_sided/ring"},
    {"one_sided/death", 3},
#endif
    {"hosts/calls", 4},
    {"hosts/death_amid_sums", 3},
    {"hosts/partition"},
    {"hosts/abort_amid_a_sum", 3, 500},
    {"hosts/revoke_amid_a_sum", 3, 500},
    {"hosts/missing_rank", 3, 500},
    {"hosts/disagreement", 3, 500},
};

int perform(const Run& run) {
  const NetworkHosts made(run.hosts);
  network = &made;
  hostCount = run.hosts;
  const Hosts hosts{run.hosts, enterHostOf, unplug, tutti::tests::kHostLossNoticedMs};
  if (std::string(run.interface) == NetworkHosts::kTunnel) made.addTunnel();
  if (run.variable) ::setenv(run.variable, run.value, 1);
  int status = run_cases_on_hosts(&hosts, run.name);
  if (run.variable) ::unsetenv(run.variable);
  for (int host = 0; host < run.hosts; ++host) {
    if (receivedBytes(host, run.interface) >= run.leastBytes) continue;
    std::printf("FAIL %s: host %d has received next to nothing by %s\n", run.name, host,
                run.interface);
    status = 1;
  }
  return status;
}

}  // namespace

/// `nccl_hosts [BEGINNING]`: the runs whose names begin so; without it all.
int main(int argc, char** argv) {
  if (const auto reason = NetworkHosts::unavailable()) {
    std::printf("SKIPPED: %s\n", reason->c_str());
    return 0;
  }
  int status = 0;
  for (const Run& run : kRuns)
    if (std::string(run.name).starts_with(argc > 1 ? argv[1] : "")) status |= perform(run);
  return status;
}
