// Reading machines from hwloc, libibverbs, sysfs and the CUDA driver; distances, near NICs and
// transports on machines that nobody here has; and that nothing missing ends an inventory.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>

#include <tutti/error.h>

#include "src/base/check.h"
#include "src/base/shared_library.h"
#include "src/topology/distance.h"
#include "src/topology/transports.h"
#include "tests/topology/big_machine.h"

namespace tutti::topology {
namespace {

std::string describe(const std::optional<PciAddress>& address) {
  return address ? address->describe() : "none";
}

TEST(Pci, AddressesAreReadAndWritten) {
  EXPECT_EQ(describe(PciAddress::parse("0000:3b:00.1")), "0000:3b:00.1");
  EXPECT_EQ(describe(PciAddress::parse("3B:1f.7")), "0000:3b:1f.7");
  EXPECT_EQ(describe(PciAddress::parse("10000:01:00.0")), "10000:01:00.0");  // behind a VMD
  for (const char* wrong :
       {"", "virtio2", "0000:3b:00", "0000:3b:00.8", "0000:3b:20.0", "100:00.0", "0000:3b:00.1x",
        "x000:3b:00.1", ":3b:00.1", "0000:3b:00.", "rxe0", "0000:-1:00.0", "0000:00:03.0 "})
    EXPECT_EQ(describe(PciAddress::parse(wrong)), "none") << wrong;
}

TEST(CpuSets, IntersectAndPrint) {
  EXPECT_EQ(toString(CpuSet{0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(toString(CpuSet{}), "");
  EXPECT_TRUE(intersect({1, 4}, {4}));
  EXPECT_FALSE(intersect({1, 4}, {0, 2, 3}));
  EXPECT_FALSE(intersect({}, {0}));
}

TEST(Processors, OfASyntheticMachine) {
  Machine m;
  readProcessors(m,
                 {.synthetic = "pack:2 [numa(memory=1073741824)] l3:1(size=33554432) core:3 pu:2"});
  EXPECT_EQ(m.problems, std::vector<std::string>{});
  ASSERT_EQ(m.packages.size(), 2u);
  EXPECT_EQ(toString(m.packages[1].cpus), "6-11");
  ASSERT_EQ(m.numaNodes.size(), 2u);
  EXPECT_EQ(m.numaNodes[1].number, 1);
  EXPECT_EQ(m.numaNodes[1].package, 1);
  EXPECT_EQ(m.numaNodes[1].memoryBytes, 1u << 30);
  EXPECT_EQ(toString(m.numaNodes[0].cpus), "0-5");
  ASSERT_EQ(m.cores.size(), 6u);
  EXPECT_EQ(m.cores[4].cpus, (CpuSet{8, 9}));
  EXPECT_EQ(toString(m.usable), "0-11");
  EXPECT_EQ(m.usableCores(), 6);
  ASSERT_EQ(m.caches.size(), 2u);
  EXPECT_EQ(m.caches[0].level, 3);
  EXPECT_EQ(m.caches[0].bytes, 32u << 20);
  EXPECT_EQ(m.pciDevices.size(), 0u);
}

TEST(Processors, WhatHwlocCannotReadIsAReason) {
  Machine synthetic, xml;
  readProcessors(synthetic, {.synthetic = "no machine"});
  ASSERT_EQ(synthetic.problems.size(), 1u);
  EXPECT_TRUE(synthetic.problems[0].starts_with("hwloc: ")) << synthetic.problems[0];
  EXPECT_EQ(synthetic.cores.size(), 0u);
  readProcessors(xml, {.xml = "<no xml"});
  EXPECT_EQ(xml.problems.size(), 1u);
}

TEST(Processors, ThatAreNotAllowedAreNotUsable) {
  std::string xml = bigMachineXml();
  const std::string all = "allowed_cpuset=\"0x0000ffff\"";
  xml.replace(xml.find(all), all.size(), "allowed_cpuset=\"0x0000000e\"");
  Machine m;
  readProcessors(m, {.xml = xml});
  EXPECT_EQ(toString(m.usable), "1-3");
  EXPECT_EQ(m.cores.size(), 8u);
  EXPECT_EQ(m.usableCores(), 2);
  EXPECT_EQ(toString(bindInBlocks(m, 2)[0].cpus), "1");
}

TEST(Processors, OfThisMachineAreThoseOfTheScheduler) {
  Machine m;
  readProcessors(m);
  EXPECT_EQ(m.problems, std::vector<std::string>{});
  cpu_set_t bound;
  ASSERT_EQ(sched_getaffinity(0, sizeof bound, &bound), 0);
  ASSERT_FALSE(m.usable.empty());
  for (const int cpu : m.usable) EXPECT_TRUE(CPU_ISSET(cpu, &bound)) << cpu;
  EXPECT_FALSE(m.numaNodes.empty());
  // Bound to one of them, it has that one.
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(m.usable.back(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  Machine narrow;
  readProcessors(narrow);
  EXPECT_EQ(narrow.usable, CpuSet{m.usable.back()});
  EXPECT_EQ(narrow.cores.size(), m.cores.size());
  ASSERT_EQ(sched_setaffinity(0, sizeof bound, &bound), 0);
}

TEST(BigMachine, IsReadAsItWasWritten) {
  const Machine m = bigMachine();
  EXPECT_EQ(m.problems, std::vector<std::string>{});
  EXPECT_EQ(m.packages[0].model, "Example 9000");
  EXPECT_EQ(m.numaNodes.size(), 2u);
  EXPECT_EQ(m.cores.size(), 8u);
  ASSERT_EQ(m.pciDevices.size(), 17u);
  int networks = 0;
  for (const PciDevice& d : m.pciDevices) networks += d.kind == PciDevice::Kind::Network;
  EXPECT_EQ(networks, 9);
  const PciDevice* gpu = m.pciDevice(m.gpus[1].pci);
  ASSERT_TRUE(gpu);
  EXPECT_EQ(gpu->kind, PciDevice::Kind::Gpu);
  EXPECT_EQ(gpu->bridges.size(), 6u);
  EXPECT_EQ(gpu->numaNodes, std::vector<int>{0});
  EXPECT_EQ(m.pciDevice(m.gpus[7].pci)->numaNodes, std::vector<int>{1});
  EXPECT_EQ(m.pciDevice(std::nullopt), nullptr);
  EXPECT_EQ(m.pciDevice(PciAddress{.bus = 0x99}), nullptr);
}

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
  const Place eth = placeOf(m, m.interfaces[1].pci);
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
  const Place near = placeOf(m, m.nics[0].pci);
  EXPECT_EQ(distance(m, placeOf(m, CpuSet{0, 3}), near), Distance::Phb);
  EXPECT_EQ(distance(m, placeOf(m, CpuSet{8}), near), Distance::Sys);
  EXPECT_EQ(distance(m, placeOf(m, CpuSet{0, 8}), near), Distance::Sys);
  EXPECT_EQ(distance(m, placeOf(m, CpuSet{}), near), Distance::Unknown);
  EXPECT_EQ(distance(m, placeOf(m, CpuSet{0}), placeOf(m, std::nullopt)), Distance::Unknown);
}

TEST(Distances, KnowSeveralNodesOfAPackage) {
  Machine m;
  readProcessors(m, {.synthetic = "pack:2 numa:2 core:2 pu:1"});
  const Place atNode1{.bridges = {0}, .numaNodes = {1}};
  const Place atPackage0{.bridges = {0}, .numaNodes = {0, 1}};
  const auto from = [&](int cpu, const Place& to) {
    return distance(m, placeOf(m, CpuSet{cpu}), to);
  };
  EXPECT_EQ(from(2, atNode1), Distance::Phb);
  EXPECT_EQ(from(0, atNode1), Distance::Node);
  EXPECT_EQ(from(4, atNode1), Distance::Sys);
  EXPECT_EQ(from(0, atPackage0), Distance::Phb);
  EXPECT_EQ(from(7, atPackage0), Distance::Sys);
}

/// Devices in the order of networkDevices().
std::vector<int> devicesOf(const std::vector<NearNic>& nics) {
  std::vector<int> devices;
  for (const NearNic& n : nics) devices.push_back(n.device);
  return devices;
}

TEST(NearNics, OfGpusAreThoseAtTheirSwitch) {
  const Machine m = bigMachine();
  const auto near = nearNics(m, bindInBlocks(m, 8));
  EXPECT_EQ(devicesOf(near), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  for (const NearNic& n : near) EXPECT_EQ(n.distance, Distance::Pix);
  // Twice as many ranks as GPUs go round again.
  EXPECT_EQ(nearNics(m, bindInBlocks(m, 16))[11].device, 3);
}

TEST(NearNics, OfProcessorsAreSharedEvenly) {
  Machine m = bigMachine();
  m.gpus.clear();
  const auto bindings = bindInBlocks(m, 4);
  EXPECT_EQ(toString(bindings[0].cpus), "0-3");
  EXPECT_EQ(toString(bindings[3].cpus), "12-15");
  const auto near = nearNics(m, bindings);
  EXPECT_EQ(devicesOf(near), (std::vector<int>{0, 1, 4, 5}));
  EXPECT_EQ(near[3].distance, Distance::Phb);
  // Ranks that may run anywhere still take different ones.
  const std::vector<Binding> anywhere(9, {.cpus = m.usable});
  EXPECT_EQ(devicesOf(nearNics(m, anywhere)), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 0}));
}

TEST(NearNics, AreNeverDownNorSlowNorEthernetBesideRdma) {
  Machine m = bigMachine();
  m.nics[0].ports[0].state = "down";
  m.nics[1].ports[0].gigabitsPerSecond = 100;
  const auto near = nearNics(m, bindInBlocks(m, 2));
  EXPECT_EQ(near[0].distance, Distance::Node);
  EXPECT_EQ(devicesOf(near), (std::vector<int>{2, 3}));
  for (Nic& nic : m.nics) nic.ports[0].state = "down";
  EXPECT_EQ(networkDevices(m)[nearNics(m, bindInBlocks(m, 1))[0].device].name, "eth0");
  m.interfaces[1].up = false;
  EXPECT_EQ(nearNics(m, bindInBlocks(m, 1))[0], NearNic{});
}

TEST(NearDevice, IsNamedAsUcxNamesIt) {
  Machine m = bigMachine();
  for (int rank = 0; rank < 8; ++rank)
    EXPECT_EQ(nearDevice(m, rank, 8), "mlx5_" + std::to_string(rank) + ":1");
  m.gpus.clear();
  EXPECT_EQ(nearDevice(m, 3, 4), "mlx5_5:1");
  // A launcher has bound this process to the second package.
  CpuSet second;
  for (const int cpu : m.usable)
    if (cpu >= 8) second.push_back(cpu);
  m.usable = second;
  EXPECT_EQ(nearDevice(m, 0, 8), "mlx5_4:1");
  EXPECT_EQ(nearDevice(m, 5, 8), "mlx5_5:1");
}

TEST(NearDevice, IsThatOfTheGpu) {
  Machine m = bigMachine();
  for (const int gpu : {0, 5, 7})
    EXPECT_EQ(nearDevice(m, 1, 2, gpu), "mlx5_" + std::to_string(gpu) + ":1");
  m.usable = {0, 1};  // its memory is sent, wherever the process runs
  EXPECT_EQ(nearDevice(m, 0, 2, 5), "mlx5_5:1");
  m.nics = {m.nics[0], m.nics[4]};
  EXPECT_EQ(nearDevice(m, 0, 2, 3), "mlx5_0:1");
  EXPECT_EQ(nearDevice(m, 0, 2, 4), "mlx5_4:1");
  EXPECT_EQ(nearDevice(m, 0, 2, 8), "mlx5_0:1");  // no such GPU: where the process runs
}

TEST(NearDevice, IsNoneWhereThereAreNotSeveral) {
  Machine m = bigMachine();
  m.nics.resize(1);
  EXPECT_EQ(nearDevice(m, 0, 2), "");
  m.nics.clear();
  EXPECT_EQ(nearDevice(m, 0, 2), "");
  m = bigMachine();
  for (size_t i = 1; i < m.nics.size(); ++i) m.nics[i].ports[0].state = "down";
  EXPECT_EQ(nearDevice(m, 1, 2), "");
  EXPECT_THROW(nearDevice(m, 2, 2), Error);
}

TEST(NearNics, HalfAsFastIsFastEnough) {
  Machine m = bigMachine();
  m.nics[0].ports[0].gigabitsPerSecond = 200;
  EXPECT_EQ(nearNics(m, bindInBlocks(m, 1))[0].device, 0);
  m.nics[0].ports[0].gigabitsPerSecond = 0;  // unknown
  EXPECT_EQ(nearNics(m, bindInBlocks(m, 1))[0].device, 0);
}

TEST(NearNics, RefuseAGpuThatIsNotThere) {
  const Machine m = bigMachine();
  const std::vector<Binding> wrong{{.gpu = 8}};
  EXPECT_THROW(nearNics(m, wrong), Error);
  EXPECT_THROW(bindInBlocks(m, 0), Error);
}

TEST(Bindings, ShareCoresWhenRanksAreMore) {
  Machine m;
  readProcessors(m, {.synthetic = "core:2 pu:1"});
  const auto bindings = bindInBlocks(m, 5);
  ASSERT_EQ(bindings.size(), 5u);
  for (const Binding& b : bindings) EXPECT_EQ(b.cpus.size(), 1u);
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

TEST(Transports, SayWhomTheyJoinAndWhyNot) {
  const auto words = [](const Machine& m, int ranks) {
    std::vector<std::string> lines;
    for (const TransportAnswer& a : transportAnswers(m, ranks)) {
      EXPECT_FALSE(a.joins.empty() && a.because.empty()) << a.name;
      lines.push_back(a.name + (a.joins.empty() ? " no: " + a.because : " " + a.describe()));
    }
    return lines;
  };
  Machine m = bigMachine();
  using Lines = std::vector<std::string>;
  EXPECT_EQ(words(m, 4),
            (Lines{"shm the 4 ranks of this host (6 pairs), by shared memory",
                   "p2p the 4 ranks of this host (6 pairs), by peer access, NVLinks unknown "
                   "(GPUs 0-3)",
                   "ucx ranks on other hosts, by RDMA over mlx5_0:1, mlx5_1:1, mlx5_2:1, mlx5_3:1, "
                   "mlx5_4:1, mlx5_5:1, mlx5_6:1, mlx5_7:1"}));
  m.nics.clear();
  m.gpus.clear();
  EXPECT_EQ(words(m, 1), (Lines{"shm no: one rank has no other on this host",
                                "p2p no: the CUDA driver shows no GPU",
                                "ucx ranks on other hosts, by TCP over eth0"}));
  m.libraries.clear();
  EXPECT_EQ(words(m, 2)[1], "p2p no: no CUDA driver");
  EXPECT_EQ(words(m, 2)[2], "ucx no: UCX is not installed");
  m.libraries = {{.name = "UCX", .version = "1.13.1"}};
  m.interfaces.clear();
  EXPECT_EQ(words(m, 2)[2], "ucx no: no NIC and no network interface but the loopback can be used");
}

/// GPUs with so many NVLinks each, of which every two reach each other.
Machine withGpus(const std::vector<std::optional<int>>& nvLinks) {
  Machine m;
  m.libraries = {{.name = "CUDA driver", .version = "12.4"}};
  for (const auto& links : nvLinks)
    m.gpus.push_back({.nvLinks = links, .reaches = std::vector<bool>(nvLinks.size(), true)});
  return m;
}

std::string p2pWords(const Machine& m, int ranks) {
  const TransportAnswer answer = transportAnswers(m, ranks)[1];
  EXPECT_EQ(answer.name, "p2p");
  return answer.describe();
}

TEST(Transports, JoinGpusByNvLinkOrPeerAccess) {
  EXPECT_EQ(p2pWords(withGpus({18, 18, 18, 18}), 4),
            "the 4 ranks of this host (6 pairs), by NVLink (GPUs 0-3)");
  EXPECT_EQ(p2pWords(withGpus({0, 0}), 2),
            "the 2 ranks of this host (1 pair), by PCIe peer access (GPUs 0-1)");
  EXPECT_EQ(p2pWords(withGpus({4, 4, 0}), 3),
            "the 3 ranks of this host (3 pairs), 1 by NVLink (GPUs 0-1), 2 by PCIe peer access "
            "(GPUs 0-1 with GPU 2)");
  EXPECT_EQ(p2pWords(withGpus({4, std::nullopt}), 2),
            "the 2 ranks of this host (1 pair), by peer access, NVLinks unknown (GPUs 0-1)");
  EXPECT_EQ(p2pWords(withGpus({18, 18}), 1), "nobody: one rank has no other on this host");
  // GPUs that no rank is on do not count.
  EXPECT_EQ(p2pWords(withGpus({18, 18, 0, std::nullopt}), 2),
            "the 2 ranks of this host (1 pair), by NVLink (GPUs 0-1)");
}

TEST(Transports, JoinRanksThatShareAGpu) {
  EXPECT_EQ(p2pWords(withGpus({0}), 3),
            "the 3 ranks of this host (3 pairs), on the same GPU (GPU 0)");
  EXPECT_EQ(p2pWords(withGpus({18, 18}), 5),
            "the 5 ranks of this host (10 pairs), 6 by NVLink (GPUs 0-1), 4 on the same GPU "
            "(GPUs 0-1)");
  EXPECT_EQ(
      gpuPairs(withGpus({18, 18}), 3),
      (std::vector<GpuPair>{{0, 0, 1, true, "on the same GPU"}, {0, 1, 2, true, "by NVLink"}}));
}

TEST(Transports, SayWhichGpusAreNotJoined) {
  EXPECT_EQ(p2pWords(bigMachine(), 8),
            "12 of the 28 pairs of ranks of this host, by peer access, NVLinks unknown (GPUs 0-3; "
            "GPUs 4-7); not the others: neither can address the other's memory (GPUs 0-3 with GPUs "
            "4-7)");
  Machine m = withGpus({0, 0});
  m.gpus[1].reaches = {false, true};
  EXPECT_EQ(p2pWords(m, 2), "nobody: only one can address the other's memory (GPUs 0-1)");
  m.gpus[0].reaches = {true, false};
  EXPECT_EQ(p2pWords(m, 2), "nobody: neither can address the other's memory (GPUs 0-1)");
  EXPECT_EQ(p2pWords(m, 4),
            "2 of the 6 pairs of ranks of this host, on the same GPU (GPUs 0-1); not the others: "
            "neither can address the other's memory (GPUs 0-1)");
  m.gpusUnused = "this build has no CUDA";
  EXPECT_EQ(p2pWords(m, 2), "nobody: this build has no CUDA");
}

// Two rings of four with a link between each two of the same place, as in a DGX-1.
TEST(Transports, NameEachPairOfGpusOnce) {
  Machine m = withGpus(std::vector<std::optional<int>>(8, 6));
  for (size_t a = 0; a < 8; ++a)
    for (size_t b = 0; b < 8; ++b) m.gpus[a].reaches[b] = a / 4 == b / 4 || a % 4 == b % 4;
  EXPECT_EQ(p2pWords(m, 8),
            "16 of the 28 pairs of ranks of this host, by NVLink (GPU 0 with GPUs 1-4; GPU 1 with "
            "GPUs 2-3,5; GPU 2 with GPUs 3,6; GPU 3 with GPU 7; GPU 4 with GPUs 5-7; GPU 5 with "
            "GPUs 6-7; GPU 6 with GPU 7); not the others: neither can address the other's memory "
            "(GPU 0 with GPUs 5-7; GPU 1 with GPUs 4,6-7; GPU 2 with GPUs 4-5,7; GPU 3 with GPUs "
            "4-6)");
  m = withGpus({0, 0, 0, 0});  // all but 2 and 3 reach each other
  m.gpus[2].reaches[3] = m.gpus[3].reaches[2] = false;
  EXPECT_EQ(p2pWords(m, 4),
            "5 of the 6 pairs of ranks of this host, by PCIe peer access (GPUs 0-1 with each other "
            "and GPUs 2-3); not the others: neither can address the other's memory (GPUs 2-3)");
}

TEST(Gpus, AreWhatTheDriverSays) {
  const Machine m = bigMachine();
  ASSERT_EQ(m.gpus.size(), 8u);
  EXPECT_EQ(m.gpus[3].name, "Example GPU");
  EXPECT_EQ(describe(m.gpus[3].pci), "0001:07:00.0");
  EXPECT_EQ(m.gpus[3].memoryBytes, uint64_t{80} << 30);
  EXPECT_EQ(m.gpus[3].major, 9);
  EXPECT_EQ(m.gpus[3].minor, 0);
  EXPECT_EQ(m.gpus[3].uuid, "GPU-6768696a-6b6c-6d6e-6f70-717273747576");
  EXPECT_EQ(m.gpus[3].nvLinks, std::nullopt);
  EXPECT_EQ(m.gpus[3].reaches,
            (std::vector<bool>{true, true, true, true, false, false, false, false}));
  EXPECT_EQ(m.library("CUDA driver")->version, "12.4");
}

TEST(Gpus, WithoutADriverAreNoneWithAReason) {
  Machine m;
  readGpus(m, {.missing = "libcuda.so.1: cannot open shared object file"});
  EXPECT_EQ(m.gpus.size(), 0u);
  EXPECT_EQ(m.problems.size(), 0u);
  EXPECT_EQ(m.library("CUDA driver")->missing, "libcuda.so.1: cannot open shared object file");
  EXPECT_EQ(m.library("CUDA driver")->version, "");
}

TEST(Gpus, OfADriverThatFailsAreAReason) {
  CudaDriver driver = bigMachineDriver();
  driver.init = [](unsigned) { return 100; };
  Machine m;
  readGpus(m, driver);
  EXPECT_EQ(m.problems,
            std::vector<std::string>{"CUDA driver: cuInit failed: an error (error 100)"});
  EXPECT_EQ(m.gpus.size(), 0u);

  driver = bigMachineDriver();
  driver.deviceGetCount = [](int* count) { return *count = 1 << 30, 0; };
  Machine many;
  readGpus(many, driver);
  EXPECT_EQ(many.gpus.size(), 0u);
  EXPECT_EQ(many.problems.size(), 1u);

  driver = bigMachineDriver();
  driver.deviceTotalMem = [](size_t*, int) { return 999; };
  driver.getErrorString = [](int, const char**) { return 1; };
  Machine odd;
  readGpus(odd, driver);
  EXPECT_EQ(odd.gpus.size(), 8u);
  ASSERT_EQ(odd.problems.size(), 8u);
  EXPECT_EQ(odd.problems[0], "CUDA driver: cuDeviceTotalMem failed: no text (error 999)");
}

// One that knows GPUs 0 and 1 alone: 4 links, of which one is down, and none at all.
TEST(Gpus, HaveTheNvLinksThatAreUp) {
  static int open = 0;
  Nvml nvml;
  nvml.init = [] { return ++open, 0; };
  nvml.shutdown = [] { return --open, 0; };
  nvml.deviceByUuid = [](const char* uuid, void** device) {
    const int index = std::string(uuid).substr(4, 2) == "64" ? 0 : 1;
    *device = reinterpret_cast<void*>(static_cast<intptr_t>(index + 1));
    return std::string(uuid).substr(4, 2) <= "65" ? 0 : 6;
  };
  nvml.nvLinkState = [](void* device, unsigned link, unsigned* isActive) {
    if (device != reinterpret_cast<void*>(1)) return 3;
    *isActive = link != 2;
    return link < 4 ? 0 : 2;
  };
  Machine m = bigMachine();
  readNvLinks(m, nvml);
  EXPECT_EQ(m.gpus[0].nvLinks, 3);
  EXPECT_EQ(m.gpus[1].nvLinks, 0);
  EXPECT_EQ(m.gpus[2].nvLinks, std::nullopt);
  EXPECT_EQ(open, 0);

  nvml.init = [] { return 9; };
  Machine without = bigMachine();
  readNvLinks(without, nvml);
  readNvLinks(without, {.missing = "no such library"});
  EXPECT_EQ(without.gpus[0].nvLinks, std::nullopt);
  EXPECT_EQ(open, 0);
}

// A library with two devices, one of which cannot be opened. It needs no state but this.
int opened = 0;
std::array<int, 2> fakeDevices{};

Verbs fakeVerbs() {
  Verbs v{.version = "1.2.3"};
  v.getDeviceList = [](int* count) {
    *count = 2;
    auto** list = new struct ibv_device*[2];
    for (int i = 0; i < 2; ++i) list[i] = reinterpret_cast<struct ibv_device*>(&fakeDevices[i]);
    return list;
  };
  v.freeDeviceList = [](struct ibv_device** list) { delete[] list; };
  v.getDeviceName = [](struct ibv_device* d) {
    return reinterpret_cast<int*>(d) == fakeDevices.data() ? "mlx5_0" : "mlx5_1";
  };
  v.openDevice = [](struct ibv_device * d) -> struct ibv_context* {
    if (reinterpret_cast<int*>(d) != fakeDevices.data()) return errno = EPERM, nullptr;
    ++opened;
    return reinterpret_cast<struct ibv_context*>(d);
  };
  v.closeDevice = [](struct ibv_context*) { return --opened, 0; };
  v.queryDevice = [](struct ibv_context*, struct ibv_device_attr* a) {
    return a->phys_port_cnt = 3, 0;
  };
  v.queryPort = [](struct ibv_context*, uint8_t port, struct _compat_ibv_port_attr* to) {
    auto& a = *reinterpret_cast<struct ibv_port_attr*>(to);
    if (port == 3) return static_cast<int>(EIO);
    a.state = port == 1 ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    a.link_layer = port == 1 ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
    a.active_width = 2;
    a.active_speed = 128;
    a.gid_tbl_len = 1 << 30;
    return 0;
  };
  v.queryGidTable = [](struct ibv_context*, struct ibv_gid_entry* entries, size_t most, uint32_t,
                       size_t) -> ssize_t {
    if (most < 3) return -EINVAL;
    for (uint32_t i = 0; i < 3; ++i) {
      entries[i].gid.raw[0] = 0xfe;
      entries[i].gid.raw[1] = 0x80;
      entries[i].gid.raw[15] = static_cast<uint8_t>(i + 1);
      entries[i].gid_index = i;
      entries[i].port_num = i < 2 ? 1 : 2;
      entries[i].gid_type = i == 0   ? IBV_GID_TYPE_ROCE_V1
                            : i == 1 ? IBV_GID_TYPE_ROCE_V2
                                     : IBV_GID_TYPE_IB;
    }
    return 3;
  };
  return v;
}

/// A folder like sysfs, gone at the end.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / base::message("tutti_sys_", getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_; }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text << "\n";
  }
  void link(const std::string& name, const std::string& to) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::filesystem::create_directories(path_ / to);
    std::filesystem::create_symlink(path_ / to, path_ / name);
  }

 private:
  std::filesystem::path path_;
};

TEST(Nics, AreWhatTheLibrarySays) {
  const Folder sys;
  sys.link("class/infiniband/mlx5_0/device", "devices/pci0000:00/0000:3b:00.0");
  Machine m;
  readNics(m, fakeVerbs(), sys.path());
  EXPECT_EQ(opened, 0);
  ASSERT_EQ(m.nics.size(), 2u);
  EXPECT_EQ(describe(m.nics[0].pci), "0000:3b:00.0");
  ASSERT_EQ(m.nics[0].ports.size(), 2u);
  const NicPort& first = m.nics[0].ports[0];
  EXPECT_EQ(first.state, "active");
  EXPECT_EQ(first.linkLayer, "Ethernet");
  EXPECT_EQ(first.gigabitsPerSecond, 400);
  ASSERT_EQ(first.gids.size(), 2u);
  EXPECT_EQ(first.gids[0].type, "RoCE v1");
  EXPECT_EQ(first.gids[1].type, "RoCE v2");
  EXPECT_EQ(first.gids[1].address, "fe80::2");
  EXPECT_EQ(first.gids[1].index, 1);
  const NicPort& second = m.nics[0].ports[1];
  EXPECT_EQ(second.number, 2);
  EXPECT_EQ(second.state, "down");
  EXPECT_EQ(second.linkLayer, "InfiniBand");
  ASSERT_EQ(second.gids.size(), 1u);
  EXPECT_EQ(second.gids[0].type, "InfiniBand");
  EXPECT_EQ(m.nics[1].name, "mlx5_1");
  EXPECT_EQ(m.nics[1].ports.size(), 0u);
  EXPECT_EQ(describe(m.nics[1].pci), "none");
  EXPECT_EQ(m.problems, (std::vector<std::string>{
                            "libibverbs: mlx5_0:3 cannot be queried: Input/output error",
                            "libibverbs: mlx5_1 cannot be opened: Operation not permitted"}));
}

TEST(Nics, OfAnOldLibraryHaveNoGids) {
  Verbs old = fakeVerbs();
  old.queryGidTable = nullptr;
  Machine m;
  readNics(m, old, "/nowhere");
  EXPECT_EQ(m.nics[0].ports[0].gids.size(), 0u);
  EXPECT_EQ(m.nics[0].ports[0].state, "active");
}

TEST(Nics, WithoutALibraryOrAKernelAreNone) {
  Machine m;
  readNics(m, {.missing = "libibverbs.so.1: no such file"});
  EXPECT_EQ(m.library("libibverbs")->missing, "libibverbs.so.1: no such file");
  Verbs verbs = fakeVerbs();
  verbs.getDeviceList = [](int*) {
    return errno = ENOSYS, static_cast<struct ibv_device**>(nullptr);
  };
  readNics(m, verbs);
  EXPECT_EQ(m.problems.size(), 0u);
  verbs.getDeviceList = [](int*) {
    return errno = EPERM, static_cast<struct ibv_device**>(nullptr);
  };
  readNics(m, verbs);
  EXPECT_EQ(m.problems.size(), 1u);
  EXPECT_EQ(m.nics.size(), 0u);
}

TEST(Nics, HaveTheRatesOfTheSpecifications) {
  EXPECT_EQ(gigabitsPerSecond(2, 1), 10);     // 4X SDR
  EXPECT_EQ(gigabitsPerSecond(2, 4), 40);     // 4X QDR
  EXPECT_EQ(gigabitsPerSecond(2, 16), 56);    // 4X FDR
  EXPECT_EQ(gigabitsPerSecond(2, 32), 100);   // 4X EDR
  EXPECT_EQ(gigabitsPerSecond(16, 64), 100);  // 2X HDR
  EXPECT_EQ(gigabitsPerSecond(1, 32), 25);
  EXPECT_EQ(gigabitsPerSecond(8, 64), 600);
  EXPECT_EQ(gigabitsPerSecond(4, 128), 800);
  EXPECT_EQ(gigabitsPerSecond(3, 128), 0);
  EXPECT_EQ(gigabitsPerSecond(2, 0), 0);
}

TEST(Interfaces, OfThisMachineHaveTheLoopback) {
  Machine m;
  readInterfaces(m);
  const auto lo = std::ranges::find(m.interfaces, "lo", &NetworkInterface::name);
  ASSERT_NE(lo, m.interfaces.end());
  EXPECT_TRUE(lo->loopback);
  if (lo->up) {
    EXPECT_EQ(std::ranges::count(lo->addresses, "127.0.0.1"), 1);
  }
  std::set<std::string> names;
  for (const NetworkInterface& i : m.interfaces) EXPECT_TRUE(names.insert(i.name).second) << i.name;
}

TEST(Interfaces, HaveWhatSysfsSays) {
  const Folder sys;
  sys.write("class/net/lo/speed", "25000");
  sys.link("class/net/lo/device", "devices/pci0000:00/0000:3b:00.1/virtio2");
  Machine m;
  readInterfaces(m, sys.path());
  const auto lo = std::ranges::find(m.interfaces, "lo", &NetworkInterface::name);
  ASSERT_NE(lo, m.interfaces.end());
  EXPECT_EQ(lo->gigabitsPerSecond, 25.0);
  EXPECT_EQ(describe(lo->pci), "0000:3b:00.1");
  sys.write("class/net/lo/speed", "-1");
  Machine unknown;
  readInterfaces(unknown, sys.path());
  EXPECT_FALSE(
      std::ranges::find(unknown.interfaces, "lo", &NetworkInterface::name)->gigabitsPerSecond);
}

TEST(SharedLibraries, SayWhyTheyAreMissing) {
  const base::SharedLibrary none("libtutti_no_such_thing.so.7");
  EXPECT_FALSE(none);
  EXPECT_NE(none.missing().find("libtutti_no_such_thing.so.7"), std::string::npos);
  EXPECT_EQ(none.file(), "");
  double (*cosine)(double) = nullptr;
  EXPECT_FALSE(none.find("cos", cosine));
  const base::SharedLibrary math("libm.so.6");
  ASSERT_TRUE(math) << math.missing();
  EXPECT_EQ(math.missing(), "");
  ASSERT_TRUE(math.find("cos", cosine));
  EXPECT_EQ(cosine(0), 1);
  EXPECT_FALSE(math.find("no_such_function", cosine));
  EXPECT_EQ(cosine, nullptr);
}

TEST(ThisMachine, IsReadWhateverItLacks) {
  const Machine m = readMachine();
  EXPECT_FALSE(m.host.empty());
  EXPECT_GE(m.usableCores(), 1);
  for (const char* name : {"hwloc", "libibverbs", "CUDA driver", "UCX"}) {
    const Library* library = m.library(name);
    ASSERT_TRUE(library) << name;
    EXPECT_NE(library->version.empty(), library->missing.empty()) << name;
  }
  EXPECT_EQ(nearNics(m, bindInBlocks(m, 3)).size(), 3u);
  EXPECT_EQ(transportAnswers(m, 2).size(), 3u);
}

}  // namespace
}  // namespace tutti::topology
