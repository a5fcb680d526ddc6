// Which NIC a rank's worker is told to use: on a machine that nobody here has.

#include <gtest/gtest.h>

#include <cstdlib>

#include "src/communicator/world.h"
#include "tests/topology/big_machine.h"

namespace tutti::communicator {
namespace {

/// Two RDMA ports, one at each package.
topology::Machine twoPorts() {
  topology::Machine machine = topology::bigMachine();
  machine.nics = {machine.nics[0], machine.nics[4]};
  return machine;
}

std::string devicesOf(const LocalRank& rank, const topology::Machine& machine = twoPorts()) {
  return workerOptions(rank, [&] { return machine; }).devices;
}

TEST(ClosestNic, IsWhatTheWorkerIsToldToUse) {
  topology::Machine machine = twoPorts();
  machine.gpus.clear();
  EXPECT_EQ(devicesOf({.place = 0, .ranks = 2}, machine), "mlx5_0:1");
  EXPECT_EQ(devicesOf({.place = 1, .ranks = 2}, machine), "mlx5_4:1");
  machine.nics.pop_back();
  EXPECT_EQ(devicesOf({.place = 1, .ranks = 2}, machine), "");  // UCX has no choice
}

TEST(ClosestNic, IsThatOfTheCommunicatorsGpu) {
  // GPUs in turn, where ranks of the host's memory are taken to be beside them.
  EXPECT_EQ(devicesOf({.place = 1, .ranks = 2}), "mlx5_0:1");
  EXPECT_EQ(devicesOf({.place = 1, .ranks = 2, .gpu = 6}), "mlx5_4:1");
  EXPECT_EQ(devicesOf({.place = 5, .ranks = 8}), "mlx5_4:1");
  EXPECT_EQ(devicesOf({.place = 5, .ranks = 8, .gpu = 0}), "mlx5_0:1");
}

TEST(ClosestNic, IsLeftToUcxWhereTheUserHasToldIt) {
  ::setenv("UCX_NET_DEVICES", "mlx5_7:1", 1);
  const auto options = workerOptions({.place = 1, .ranks = 2}, []() -> topology::Machine {
    ADD_FAILURE() << "the machine is read in vain";
    return {};
  });
  ::unsetenv("UCX_NET_DEVICES");
  EXPECT_EQ(options.devices, "");
}

TEST(LocalRank, CountsTheRanksOfItsHost) {
  topology::Topology topology;
  topology.ranks = 5;
  topology.hostOf = {0, 1, 0, 1, 0};
  const LocalRank rank = LocalRank::of(4, topology, {});
  EXPECT_EQ(rank.place, 2);
  EXPECT_EQ(rank.ranks, 3);
  EXPECT_EQ(rank.gpu, std::nullopt);
  const LocalRank onGpu = LocalRank::of(3, topology, {DeviceKind::Cuda, 7});
  EXPECT_EQ(onGpu.place, 1);
  EXPECT_EQ(onGpu.ranks, 2);
  EXPECT_EQ(onGpu.gpu, 7);
}

}  // namespace
}  // namespace tutti::communicator
