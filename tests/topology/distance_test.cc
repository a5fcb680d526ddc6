// Distances, closest NICs and bindings on machines that nobody here has.

#include <gtest/gtest.h>

#include <tutti/error.h>

#include "src/base/check.h"
#include "src/topology/distance.h"
#include "tests/topology/big_machine.h"

namespace tutti::topology {
namespace {

Distance gpuToNic(const Machine& m, int gpu, int nic) {
  return distance(m, placeOf(m, m.gpus[gpu].pci), placeOf(m, m.nics[nic].pci));
}

TEST(Distances, AreNcclsAtEveryLevel) {
  const Machine m = bigMachine();
  EXPECT_EQ(gpuToNic(m, 0, 0), Distance::Pix);
  EXPECT_EQ(gpuToNic(m, 1, 1), Distance::Pix);
  EXPECT_EQ(gpuToNic(m, 0, 1), Distance::Pxb);
  EXPECT_EQ(gpuToNic(m, 1, 0), Distance::Pxb);
  EXPECT_EQ(gpuToNic(m, 0, 2), Distance::Node);
  EXPECT_EQ(gpuToNic(m, 0, 4), Distance::Sys);
  EXPECT_EQ(gpuToNic(m, 7, 7), Distance::Pix);
  const MachinePlace eth = placeOf(m, m.interfaces[1].pci);
  EXPECT_EQ(distance(m, placeOf(m, m.gpus[0].pci), eth), Distance::Phb);
  EXPECT_EQ(distance(m, placeOf(m, m.gpus[2].pci), eth), Distance::Node);
  EXPECT_EQ(distance(m, placeOf(m, m.gpus[4].pci), eth), Distance::Sys);
}

TEST(Distances, CountThePortsBelowTheCommonOne) {
  const auto between = [](std::vector<int> a, std::vector<int> b) {
    return distance({}, {.bridges = std::move(a)}, {.bridges = std::move(b)});
  };
  EXPECT_EQ(between({0, 1}, {0, 1}), Distance::Pix);  // two functions of a card
  EXPECT_EQ(between({0, 1, 2}, {0, 1, 2, 3}), Distance::Pix);
  EXPECT_EQ(between({0, 1, 2, 3}, {0, 1, 2, 4}), Distance::Pix);
  EXPECT_EQ(between({0, 1, 2, 3}, {0, 1, 2, 4, 5}), Distance::Pxb);  // a card with a bridge
  EXPECT_EQ(between({0, 1, 2, 3}, {0, 4}), Distance::Phb);
  EXPECT_EQ(between({0, 1}, {2, 1}), Distance::Unknown);  // other host bridges, of no known node
}

TEST(Distances, OfProcessorsCountTheFarthestNode) {
  const Machine m = bigMachine();
  const MachinePlace closest = placeOf(m, m.nics[0].pci);
  EXPECT_EQ(distance(m, placeOf(m, CpuSet{0, 3}), closest), Distance::Phb);
  EXPECT_EQ(distance(m, placeOf(m, CpuSet{8}), closest), Distance::Sys);
  EXPECT_EQ(distance(m, placeOf(m, CpuSet{0, 8}), closest), Distance::Sys);
  EXPECT_EQ(distance(m, placeOf(m, CpuSet{}), closest), Distance::Unknown);
  EXPECT_EQ(distance(m, placeOf(m, CpuSet{0}), placeOf(m, std::nullopt)), Distance::Unknown);
}

TEST(Distances, KnowSeveralNodesOfAPackage) {
  Machine m;
  readProcessors(m, {.synthetic = "pack:2 numa:2 core:2 pu:1"});
  const MachinePlace atNode1{.bridges = {0}, .numaNodes = {1}};
  const MachinePlace atPackage0{.bridges = {0}, .numaNodes = {0, 1}};
  const auto from = [&](int cpu, const MachinePlace& to) {
    return distance(m, placeOf(m, CpuSet{cpu}), to);
  };
  EXPECT_EQ(from(2, atNode1), Distance::Phb);
  EXPECT_EQ(from(0, atNode1), Distance::Node);
  EXPECT_EQ(from(4, atNode1), Distance::Sys);
  EXPECT_EQ(from(0, atPackage0), Distance::Phb);
  EXPECT_EQ(from(7, atPackage0), Distance::Sys);
}

/// Devices in the order of networkDevices().
std::vector<int> devicesOf(const std::vector<ClosestNic>& nics) {
  std::vector<int> devices;
  for (const ClosestNic& n : nics) devices.push_back(n.device);
  return devices;
}

TEST(ClosestNics, OfGpusAreThoseAtTheirSwitch) {
  const Machine m = bigMachine();
  const auto closest = closestNics(m, bindInBlocks(m, 8));
  EXPECT_EQ(devicesOf(closest), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  for (const ClosestNic& n : closest) EXPECT_EQ(n.distance, Distance::Pix);
  // Twice as many ranks as GPUs go round again.
  EXPECT_EQ(closestNics(m, bindInBlocks(m, 16))[11].device, 3);
}

TEST(ClosestNics, OfProcessorsAreSharedEvenly) {
  Machine m = bigMachine();
  m.gpus.clear();
  const auto bindings = bindInBlocks(m, 4);
  EXPECT_EQ(toString(bindings[0].cpus), "0-3");
  EXPECT_EQ(toString(bindings[3].cpus), "12-15");
  const auto closest = closestNics(m, bindings);
  EXPECT_EQ(devicesOf(closest), (std::vector<int>{0, 1, 4, 5}));
  EXPECT_EQ(closest[3].distance, Distance::Phb);
  // Ranks that may run anywhere still take different ones.
  const std::vector<CoreBinding> anywhere(9, {.cpus = m.usable});
  EXPECT_EQ(devicesOf(closestNics(m, anywhere)), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 0}));
}

TEST(ClosestNics, AreNeverDownNorSlowNorEthernetBesideRdma) {
  Machine m = bigMachine();
  m.nics[0].ports[0].state = "down";
  m.nics[1].ports[0].gigabitsPerSecond = 100;
  const auto closest = closestNics(m, bindInBlocks(m, 2));
  EXPECT_EQ(closest[0].distance, Distance::Node);
  EXPECT_EQ(devicesOf(closest), (std::vector<int>{2, 3}));
  for (Nic& nic : m.nics) nic.ports[0].state = "down";
  EXPECT_EQ(networkDevices(m)[closestNics(m, bindInBlocks(m, 1))[0].device].name, "eth0");
  m.interfaces[1].up = false;
  EXPECT_EQ(closestNics(m, bindInBlocks(m, 1))[0], ClosestNic{});
}

TEST(ClosestDevice, IsNamedAsUcxNamesIt) {
  Machine m = bigMachine();
  for (int rank = 0; rank < 8; ++rank)
    EXPECT_EQ(closestDevice(m, rank, 8), "mlx5_" + std::to_string(rank) + ":1");
  m.gpus.clear();
  EXPECT_EQ(closestDevice(m, 3, 4), "mlx5_5:1");
  // A launcher has bound this process to the second package.
  CpuSet second;
  for (const int cpu : m.usable)
    if (cpu >= 8) second.push_back(cpu);
  m.usable = second;
  EXPECT_EQ(closestDevice(m, 0, 8), "mlx5_4:1");
  EXPECT_EQ(closestDevice(m, 5, 8), "mlx5_5:1");
}

TEST(ClosestDevice, IsThatOfTheGpu) {
  Machine m = bigMachine();
  for (const int gpu : {0, 5, 7})
    EXPECT_EQ(closestDevice(m, 1, 2, gpu), "mlx5_" + std::to_string(gpu) + ":1");
  m.usable = {0, 1};  // its memory is sent, wherever the process runs
  EXPECT_EQ(closestDevice(m, 0, 2, 5), "mlx5_5:1");
  m.nics = {m.nics[0], m.nics[4]};
  EXPECT_EQ(closestDevice(m, 0, 2, 3), "mlx5_0:1");
  EXPECT_EQ(closestDevice(m, 0, 2, 4), "mlx5_4:1");
  EXPECT_EQ(closestDevice(m, 0, 2, 8), "mlx5_0:1");  // no such GPU: where the process runs
}

TEST(ClosestDevice, IsNoneWhereThereAreNotSeveral) {
  Machine m = bigMachine();
  m.nics.resize(1);
  EXPECT_EQ(closestDevice(m, 0, 2), "");
  m.nics.clear();
  EXPECT_EQ(closestDevice(m, 0, 2), "");
  m = bigMachine();
  for (size_t i = 1; i < m.nics.size(); ++i) m.nics[i].ports[0].state = "down";
  EXPECT_EQ(closestDevice(m, 1, 2), "");
  EXPECT_THROW(closestDevice(m, 2, 2), Error);
}

TEST(ClosestNics, HalfAsFastIsFastEnough) {
  Machine m = bigMachine();
  m.nics[0].ports[0].gigabitsPerSecond = 200;
  EXPECT_EQ(closestNics(m, bindInBlocks(m, 1))[0].device, 0);
  m.nics[0].ports[0].gigabitsPerSecond = 0;  // unknown
  EXPECT_EQ(closestNics(m, bindInBlocks(m, 1))[0].device, 0);
}

TEST(ClosestNics, RefuseAGpuThatIsNotThere) {
  const Machine m = bigMachine();
  const std::vector<CoreBinding> wrong{{.gpu = 8}};
  EXPECT_THROW(closestNics(m, wrong), Error);
  EXPECT_THROW(bindInBlocks(m, 0), Error);
}

TEST(Bindings, ShareCoresWhenRanksAreMore) {
  Machine m;
  readProcessors(m, {.synthetic = "core:2 pu:1"});
  const auto bindings = bindInBlocks(m, 5);
  ASSERT_EQ(bindings.size(), 5u);
  for (const CoreBinding& b : bindings) EXPECT_EQ(b.cpus.size(), 1u);
  EXPECT_EQ(bindings[0].cpus, CpuSet{0});
  EXPECT_EQ(bindings[4].cpus, CpuSet{1});
}

TEST(NetworkDevices, AreNamedAsUcxDoes) {
  Machine m = bigMachine();
  m.nics.resize(1);
  m.nics[0].ports.push_back({.number = 2, .state = "initializing"});
  m.interfaces.push_back(
      {.name = "ib0", .addresses = {"10.0.0.1"}, .up = true, .pci = m.nics[0].pci});
  m.interfaces.push_back({.name = "docker0", .up = true});
  m.interfaces.push_back({.name = "bond0", .addresses = {"10.0.0.2"}, .up = true});
  const auto devices = networkDevices(m);
  std::vector<std::string> names;
  for (const NetworkDevice& d : devices) names.push_back(d.name);
  EXPECT_EQ(names, (std::vector<std::string>{"mlx5_0:1", "mlx5_0:2", "eth0", "bond0"}));
  EXPECT_EQ(devices[0].unusable, "");
  EXPECT_EQ(devices[1].unusable, "the port is initializing");
  EXPECT_FALSE(devices[2].rdma);
}

}  // namespace
}  // namespace tutti::topology
