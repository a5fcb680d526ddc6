// 1,024 ranks as threads of this process, over the simulated wire.

#include <gtest/gtest.h>

#include <tutti/tutti.h>

#include "src/communicator/local.h"
#include "src/communicator/state.h"
#include "tests/support/local_ranks.h"
#include "transports/sim/endpoint.h"

namespace tutti::tests {
namespace {

TEST(ManyRanks, AThousandThreadsReduce) {
  constexpr int kRanks = 1024;
  auto network = std::make_shared<transports::sim::Network>(
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
