// nccl_hosts: programs of NCCL's kind over two hosts, which are network namespaces. Rank r of a
// case is on host r mod 2, and the id comes to it from rank 0 by memory that they share, as it
// would by MPI. Cases of threads, or of one rank, tell nothing new and are left out.

#include <cstdio>
#include <string>

#include <tutti/error.h>

#include "tests/support/network_hosts.h"

extern "C" int run_cases_on_hosts(void (*go)(int rank), const char* prefix);

namespace {

// Of the case at hand. It may not be destroyed at the exit of a case's process.
const tutti::tests::NetworkHosts* hosts = nullptr;

void goToHostOf(int rank) { hosts->enter(rank % 2); }

/// What a host has received over its link so far.
int64_t receivedBytes(int host) {
  return std::stoll(hosts->run(host, {"cat", "/sys/class/net/eth0/statistics/rx_bytes"}));
}

}  // namespace

int main() {
  using tutti::tests::NetworkHosts;
  if (const auto reason = NetworkHosts::unavailable()) {
    std::printf("SKIPPED: %s\n", reason->c_str());
    return 0;
  }
  int status = 0;
  for (const char* name : {"life/splits", "life/shrinks", "life/nonblocking",
                           "collectives/reductions", "collectives/movements"}) {
    const NetworkHosts both(2);
    hosts = &both;
    status |= run_cases_on_hosts(goToHostOf, name);
    // Names are beginnings: collectives/reductions_alone is run too, and sends nothing.
    for (const int host : {0, 1})
      if (receivedBytes(host) < 10'000) {
        std::printf("FAIL %s: host %d has received nothing\n", name, host);
        status = 1;
      }
  }
  return status;
}
