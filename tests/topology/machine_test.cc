// Reading machines from hwloc, libibverbs, sysfs and the CUDA driver; and that nothing missing ends
// an inventory.

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
#include "tests/support/temporary_folder.h"
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

/// A folder like sysfs.
class SysFolder {
 public:
  std::string path() const { return folder_.path(); }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    std::ofstream(folder_.path() / name) << text << "\n";
  }
  void link(const std::string& name, const std::string& to) const {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    std::filesystem::create_directories(folder_.path() / to);
    std::filesystem::create_symlink(folder_.path() / to, folder_.path() / name);
  }

 private:
  tests::TemporaryFolder folder_;
};

TEST(Nics, AreWhatTheLibrarySays) {
  const SysFolder sys;
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
  const SysFolder sys;
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
    const LibraryVersion* library = m.library(name);
    ASSERT_TRUE(library) << name;
    EXPECT_NE(library->version.empty(), library->missing.empty()) << name;
  }
  EXPECT_EQ(closestNics(m, bindInBlocks(m, 3)).size(), 3u);
  EXPECT_EQ(transportAnswers(m, 2).size(), 4u);
}

}  // namespace
}  // namespace tutti::topology
