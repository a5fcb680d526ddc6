// More than 4 GiB through one ring.

#include <gtest/gtest.h>

#include "tests/transports/fabric.h"
#include "tests/transports/shm/fabrics.h"
#include "tests/transports/sim/fabrics.h"

namespace tutti::tests {
namespace {

class VolumeTest : public ::testing::TestWithParam<FabricFactory> {};

TEST_P(VolumeTest, MoreThanFourGigabytesThroughOneRing) {
  constexpr uint64_t kSlot = 256 * 1024;
  constexpr uint64_t kMessages = (uint64_t{1} << 32) / kSlot + 100;
  Scenario s;
  s.layout = {.channels = 1, .slotCount = 4, .slotBytes = kSlot};
  s.actors = [&](int rank) {
    const Stream stream{1 - rank, 0, kMessages, always(kSlot), 5, true};
    Actors actors;
    actors.push_back(rank == 0 ? sender(stream) : receiver(stream));
    return actors;
  };
  const auto fabric = GetParam()();
  const auto problems = fabric->run(s);
  for (const std::string& problem : problems) EXPECT_EQ(problem, "") << fabric->describe();
}

INSTANTIATE_TEST_SUITE_P(Volume, VolumeTest,
                         ::testing::Values(shmThreads, shmProcesses, simThreads),
                         [](const auto& fabric) { return fabric.param()->name(); });

}  // namespace
}  // namespace tutti::tests
