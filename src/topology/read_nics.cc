// What libibverbs sees, and where sysfs says that it is.

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "src/base/check.h"
#include "src/base/shared_library.h"
#include "src/topology/read_machine.h"

namespace tutti::topology {
namespace {

constexpr int kMostGids = 4096;  // a table's length comes from a driver

const char* stateName(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN: return "down";
    case IBV_PORT_INIT: return "initializing";
    case IBV_PORT_ARMED: return "armed";
    case IBV_PORT_ACTIVE: return "active";
    case IBV_PORT_ACTIVE_DEFER: return "deferred";
    default: return "unknown";
  }
}

const char* linkLayerName(unsigned layer) {
  if (layer == IBV_LINK_LAYER_INFINIBAND) return "InfiniBand";
  return layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "";
}

const char* gidTypeName(uint32_t type) {
  switch (type) {
    case IBV_GID_TYPE_IB: return "InfiniBand";
    case IBV_GID_TYPE_ROCE_V1: return "RoCE v1";
    case IBV_GID_TYPE_ROCE_V2: return "RoCE v2";
    default: return "";
  }
}

class NicReader {
 public:
  NicReader(Machine& machine, const Verbs& verbs, std::string sys)
      : machine_(machine), verbs_(verbs), sys_(std::move(sys)) {}

  void read(struct ibv_device* device) {
    Nic nic{.name = verbs_.getDeviceName(device)};
    // Its folder in sysfs is a link into the tree of PCI devices.
    std::error_code none;
    const auto folder =
        std::filesystem::canonical(sys_ + "/class/infiniband/" + nic.name + "/device", none);
    if (!none) nic.pci = PciAddress::parse(folder.filename().string());
    errno = 0;
    const std::unique_ptr<struct ibv_context, int (*)(struct ibv_context*)> context(
        verbs_.openDevice(device), verbs_.closeDevice);
    struct ibv_device_attr attributes {};
    if (!context)
      problem(nic.name, "cannot be opened", errno);
    else if (const int error = verbs_.queryDevice(context.get(), &attributes))
      problem(nic.name, "does not tell its ports", error);
    for (int port = 1; port <= attributes.phys_port_cnt; ++port) readPort(nic, context.get(), port);
    machine_.nics.push_back(std::move(nic));
  }

 private:
  void problem(const std::string& what, const char* how, int error) {
    machine_.problems.push_back(
        base::message("libibverbs: ", what, " ", how, ": ", std::strerror(error)));
  }

  void readPort(Nic& nic, struct ibv_context* context, int number) {
    struct ibv_port_attr attributes {};
    // The library fills what this older and shorter struct has.
    if (const int error =
            verbs_.queryPort(context, static_cast<uint8_t>(number),
                             reinterpret_cast<struct _compat_ibv_port_attr*>(&attributes)))
      return problem(base::message(nic.name, ":", number), "cannot be queried", error);
    nic.ports.push_back(
        {.number = number,
         .state = stateName(attributes.state),
         .linkLayer = linkLayerName(attributes.link_layer),
         .gigabitsPerSecond = gigabitsPerSecond(attributes.active_width, attributes.active_speed),
         .gids = gidsOf(context, number, attributes.gid_tbl_len)});
  }

  std::vector<Gid> gidsOf(struct ibv_context* context, int port, int tableLength) const {
    std::vector<Gid> gids;
    if (!verbs_.queryGidTable) return gids;
    // The table is of all ports together.
    const auto most = static_cast<size_t>(std::clamp(tableLength, 0, kMostGids)) * 2;
    std::vector<struct ibv_gid_entry> entries(most);
    const ssize_t count =
        verbs_.queryGidTable(context, entries.data(), most, 0, sizeof(struct ibv_gid_entry));
    for (ssize_t i = 0; i < count; ++i) {
      if (entries[i].port_num != static_cast<uint32_t>(port)) continue;
      std::array<char, INET6_ADDRSTRLEN> text{};
      ::inet_ntop(AF_INET6, entries[i].gid.raw, text.data(), text.size());
      gids.push_back({.index = static_cast<int>(entries[i].gid_index),
                      .address = text.data(),
                      .type = gidTypeName(entries[i].gid_type)});
    }
    return gids;
  }

  Machine& machine_;
  const Verbs& verbs_;
  const std::string sys_;
};

}  // namespace

double gigabitsPerSecond(unsigned width, unsigned speed) {
  struct Row {
    unsigned code;
    double value;
  };
  static constexpr std::array kLanes{Row{1, 1}, Row{2, 4}, Row{4, 8}, Row{8, 12}, Row{16, 2}};
  // SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR: of one lane, as the specifications name them.
  static constexpr std::array kSpeeds{Row{1, 2.5}, Row{2, 5},   Row{4, 10},  Row{8, 10},
                                      Row{16, 14}, Row{32, 25}, Row{64, 50}, Row{128, 100}};
  const auto lanes = std::ranges::find(kLanes, width, &Row::code);
  const auto rate = std::ranges::find(kSpeeds, speed, &Row::code);
  return lanes == kLanes.end() || rate == kSpeeds.end() ? 0 : lanes->value * rate->value;
}

Verbs loadVerbs() {
  Verbs verbs;
  const base::SharedLibrary library("libibverbs.so.1");
  verbs.missing = library.missing();
  if (!library) return verbs;
  const bool complete = library.find("ibv_get_device_list", verbs.getDeviceList) &&
                        library.find("ibv_free_device_list", verbs.freeDeviceList) &&
                        library.find("ibv_get_device_name", verbs.getDeviceName) &&
                        library.find("ibv_open_device", verbs.openDevice) &&
                        library.find("ibv_close_device", verbs.closeDevice) &&
                        library.find("ibv_query_device", verbs.queryDevice) &&
                        library.find("ibv_query_port", verbs.queryPort);
  library.find("_ibv_query_gid_table", verbs.queryGidTable);
  if (!complete) return {.missing = "libibverbs.so.1 lacks functions that it always had"};
  // It has no function that tells its version, but its file's name does.
  const std::string file = library.file();
  verbs.version = file.substr(std::min(file.size(), std::strlen("libibverbs.so.")));
  return verbs;
}

void readNics(Machine& machine, const Verbs& verbs, const std::string& sys) {
  machine.libraries.push_back(
      {.name = "libibverbs", .version = verbs.version, .missing = verbs.missing});
  if (!verbs.missing.empty()) return;
  int count = 0;
  errno = 0;
  const std::unique_ptr<struct ibv_device*, void (*)(struct ibv_device**)> list(
      verbs.getDeviceList(&count), verbs.freeDeviceList);
  if (!list) {
    // ENOSYS: the kernel has no RDMA, which is no failure.
    if (errno != ENOSYS)
      machine.problems.push_back(
          base::message("libibverbs: the devices cannot be listed: ", std::strerror(errno)));
    return;
  }
  NicReader reader(machine, verbs, sys);
  for (int i = 0; i < count; ++i) reader.read(list.get()[i]);
}

}  // namespace tutti::topology
