#include "tests/topology/big_machine.h"

#include <array>
#include <cstdio>

#include "src/base/check.h"

namespace tutti::topology {
namespace {

constexpr int kGpus = 8;
constexpr uint64_t kNodeBytes = uint64_t{512} << 30;
constexpr uint64_t kGpuBytes = uint64_t{80} << 30;

/// Each host bridge is a domain of its own.
std::string busId(int bridge, int bus) {
  return PciAddress{.domain = static_cast<uint32_t>(bridge), .bus = static_cast<uint32_t>(bus)}
      .describe();
}
std::string busIdOf(int device, int firstBus) {
  return busId(device / 2, firstBus + (device % 2 == 0 ? 0 : 4));
}

class XmlWriter {
 public:
  std::string write() {
    open(
        R"(type="Machine" os_index="0" allowed_cpuset="0x0000ffff" allowed_nodeset="0x00000003" )" +
        sets("0x0000ffff", "0x00000003"));
    for (int package = 0; package < 2; ++package) writePackage(package);
    close();
    return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
           "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n" +
           xml_ + "</topology>\n";
  }

 private:
  static std::string sets(const std::string& cpus, const std::string& nodes) {
    return base::message("cpuset=\"", cpus, "\" complete_cpuset=\"", cpus, "\" nodeset=\"", nodes,
                         "\" complete_nodeset=\"", nodes, "\"");
  }
  static std::string mask(unsigned bits) {
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), "0x%08x", bits);
    return text.data();
  }
  void open(const std::string& attributes) {
    xml_ += base::message("<object ", attributes, " gp_index=\"", ++objects_, "\">\n");
  }
  void close() { xml_ += "</object>\n"; }
  void leaf(const std::string& attributes) {
    open(attributes);
    close();
  }

  void writePackage(int package) {
    const std::string node = mask(1u << package), all = mask(0xffu << 8 * package);
    open(base::message("type=\"Package\" os_index=\"", package, "\" ", sets(all, node)));
    xml_ += "<info name=\"CPUModel\" value=\"Example 9000\"/>\n";
    leaf(base::message("type=\"NUMANode\" os_index=\"", package, "\" local_memory=\"", kNodeBytes,
                       "\" ", sets(all, node)));
    open(base::message("type=\"L3Cache\" cache_size=\"67108864\" depth=\"3\" cache_type=\"0\" ",
                       sets(all, node)));
    for (int core = 4 * package; core < 4 * package + 4; ++core) {
      open(base::message("type=\"Core\" os_index=\"", core, "\" ",
                         sets(mask(3u << 2 * core), node)));
      for (int cpu = 2 * core; cpu < 2 * core + 2; ++cpu)
        leaf(base::message("type=\"PU\" os_index=\"", cpu, "\" ", sets(mask(1u << cpu), node)));
      close();
    }
    close();
    writeTree(2 * package);
    writeTree(2 * package + 1);
    close();
  }

  void openPort(const std::string& id, int bridge, int first, int last, int depth) {
    open(base::message("type=\"Bridge\" bridge_type=\"1-1\" depth=\"", depth, "\" pci_busid=\"", id,
                       "\" pci_type=\"0604 [10b5:9797] [0000:0000] aa\" pci_link_speed=\"0\" ",
                       "bridge_pci=\"", busId(bridge, first).substr(0, 4), ":[",
                       busId(0, first).substr(5, 2), "-", busId(0, last).substr(5, 2), "]\""));
  }
  void device(const std::string& id, const char* type) {
    leaf(base::message("type=\"PCIDev\" pci_busid=\"", id, "\" pci_type=\"", type,
                       " [0000:0000] a1\" pci_link_speed=\"63\""));
  }
  /// A port down with one device behind it.
  void slot(int bridge, int switchBus, int number, int bus, int depth, const char* type) {
    PciAddress port{.domain = static_cast<uint32_t>(bridge),
                    .bus = static_cast<uint32_t>(switchBus),
                    .device = static_cast<uint32_t>(number)};
    openPort(port.describe(), bridge, bus, bus, depth);
    device(busId(bridge, bus), type);
    close();
  }

  void writeTree(int bridge) {
    constexpr const char* kGpu = "0302 [10de:2330]";
    constexpr const char* kNic = "0207 [15b3:1021]";
    open(base::message("type=\"Bridge\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"",
                       busId(bridge, 0).substr(0, 4), ":[00-ff]\""));
    const std::string domain = busId(bridge, 0).substr(0, 4);
    openPort(domain + ":00:01.0", bridge, 1, 8, 1);
    openPort(domain + ":01:00.0", bridge, 2, 8, 2);
    slot(bridge, 2, 0, 3, 3, kGpu);
    slot(bridge, 2, 1, 4, 3, kNic);
    openPort(domain + ":02:02.0", bridge, 5, 8, 3);
    openPort(domain + ":05:00.0", bridge, 6, 8, 4);
    slot(bridge, 6, 0, 7, 5, kGpu);
    slot(bridge, 6, 1, 8, 5, kNic);
    for (int ports = 0; ports < 4; ++ports) close();
    if (bridge == 0) {
      openPort("0000:00:02.0", bridge, 0x20, 0x20, 1);
      device(busId(bridge, 0x20), "0200 [8086:1593]");
      close();
    }
    close();
  }

  std::string xml_;
  int objects_ = 0;
};

}  // namespace

std::string bigMachineXml() { return XmlWriter().write(); }

CudaDriver bigMachineDriver() {
  CudaDriver driver;
  driver.init = [](unsigned) { return 0; };
  driver.getErrorString = [](int, const char** text) { return *text = "an error", 0; };
  driver.driverGetVersion = [](int* version) { return *version = 12040, 0; };
  driver.deviceGetCount = [](int* count) { return *count = kGpus, 0; };
  driver.deviceGet = [](int* device, int ordinal) { return *device = 100 + ordinal, 0; };
  driver.deviceGetName = [](char* name, int bytes, int) {
    return std::snprintf(name, static_cast<size_t>(bytes), "Example GPU"), 0;
  };
  driver.deviceGetPciBusId = [](char* id, int bytes, int device) {
    return std::snprintf(id, static_cast<size_t>(bytes), "%s", busIdOf(device - 100, 3).c_str()), 0;
  };
  driver.deviceGetUuid = [](void* bytes, int device) {
    for (int i = 0; i < 16; ++i) static_cast<uint8_t*>(bytes)[i] = static_cast<uint8_t>(device + i);
    return 0;
  };
  driver.deviceTotalMem = [](size_t* bytes, int) { return *bytes = kGpuBytes, 0; };
  driver.deviceGetAttribute = [](int* value, int attribute, int) {
    return *value = attribute == 75 ? 9 : 0, 0;
  };
  driver.deviceCanAccessPeer = [](int* can, int device, int peer) {
    return *can = (device - 100) / 4 == (peer - 100) / 4, 0;
  };
  return driver;
}

Machine bigMachine() {
  Machine machine{.host = "example"};
  readProcessors(machine, {.xml = bigMachineXml()});
  readGpus(machine, bigMachineDriver());
  for (int i = 0; i < kGpus; ++i)
    machine.nics.push_back(
        {.name = base::message("mlx5_", i),
         .ports = {{.state = "active", .linkLayer = "InfiniBand", .gigabitsPerSecond = 400}},
         .pci = PciAddress::parse(busIdOf(i, 4))});
  machine.interfaces = {
      {.name = "lo", .addresses = {"127.0.0.1"}, .up = true, .loopback = true},
      {.name = "eth0",
       .addresses = {"192.0.2.7"},
       .gigabitsPerSecond = 25,
       .up = true,
       .pci = PciAddress::parse("0000:20:00.0")},
  };
  machine.libraries.push_back({.name = "libibverbs", .version = "1.14.44.0"});
  machine.libraries.push_back({.name = "UCX", .version = "1.13.1"});
  return machine;
}

}  // namespace tutti::topology
