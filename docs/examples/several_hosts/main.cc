// Joins ranks of several hosts, without a launcher. Start it once for each rank:
//
//     TUTTI_JOB_KEY=KEY several_hosts ADDRESS RANK SIZE
//
// ADDRESS is HOST:PORT, where HOST is the host of rank 0 and PORT is free there. KEY is a secret of
// at least 16 characters, the same for all ranks: `openssl rand -hex 16` makes one.

#include <tutti/tutti.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: TUTTI_JOB_KEY=KEY %s ADDRESS RANK SIZE\n", argv[0]);
    return 2;
  }
  try {
    // Every rank derives the same id from the address. The key proves who may join.
    auto communicator = tutti::Communicator::create({.id = tutti::UniqueId::at(argv[1]),
                                                     .rank = std::atoi(argv[2]),
                                                     .size = std::atoi(argv[3])});
    const std::vector<int>& hosts = communicator.hosts();  // by rank
    const int host = hosts[static_cast<size_t>(communicator.rank())];

    // One sum among the ranks of each host, and one among the first ranks of all hosts.
    double x = communicator.rank() + 1;
    auto local = communicator.split(host, communicator.rank());
    local->allReduce({.send = &x, .recv = &x, .count = 1});
    auto leaders = communicator.split(local->rank() == 0 ? 0 : -1, host);
    if (leaders) leaders->allReduce({.send = &x, .recv = &x, .count = 1});
    local->broadcast({.send = &x, .recv = &x, .count = 1});

    std::printf("rank %d of %d on host %d of %d: the sum is %g\n", communicator.rank(),
                communicator.size(), host, std::ranges::max(hosts) + 1, x);
    return 0;
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s: %s\n", tutti::toString(error.code()), error.what());
    return 1;
  }
}
