// 1,024 ranks as threads of this process, over the simulated wire. ThreadSanitizer, which remembers
// for every lock what each thread knew, gets a quarter of them.

#include <gtest/gtest.h>

#include <tutti/tutti.h>

#include "src/communicator/endpoints.h"
#include "src/communicator/local.h"
#include "tests/support/local_ranks.h"
#include "tests/support/sim/endpoint.h"

namespace tutti::tests {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr int kRanks = 256;
#else
constexpr int kRanks = 1024;
#endif

TEST(ManyRanks, AThousandThreadsReduce) {
  auto network = std::make_shared<transports::sim::SimNetwork>(
      kRanks, transports::sim::chooseLayout(kRanks, communicator::kChannels),
      transports::sim::SimOptions{.seed = 7});
  auto ranks = communicator::makeLocal(kRanks, {.algorithm = "double_tree"}, [&](int rank) {
    return transports::sim::makeSimEndpoint(network, rank);
  });
  runRanks(ranks, [](Communicator& c) {
    int64_t sum = c.rank();
    c.allReduce({.send = &sum, .recv = &sum, .count = 1, .type = DataType::Int64});
    EXPECT_EQ(sum, int64_t{kRanks} * (kRanks - 1) / 2);
    c.barrier();
  });
}

}  // namespace
}  // namespace tutti::tests
