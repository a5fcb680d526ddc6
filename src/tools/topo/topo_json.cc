// A machine as JSON: the fields of Machine under their names with underscores, then what follows
// from them.

#include "src/tools/common/json.h"
#include "src/tools/topo/topo_report.h"
#include "src/topology/distance.h"
#include "src/topology/transports.h"

namespace tutti::tools {
namespace {

using namespace topology;

Json pciOf(const std::optional<PciAddress>& pci) {
  return pci ? Json(pci->describe()) : Json(nullptr);
}

/// The kernel's numbers of NUMA nodes that are given by index.
Json nodesOf(const Machine& m, const std::vector<int>& indices) {
  Json numbers = Json::array();
  for (const int i : indices) numbers.push_back(m.numaNodes[i].number);
  return numbers;
}

/// 0 stands for "unknown".
Json rateOf(double gigabitsPerSecond) {
  return gigabitsPerSecond > 0 ? Json(gigabitsPerSecond) : Json(nullptr);
}

const char* kindName(PciDevice::Kind kind) {
  switch (kind) {
    case PciDevice::Kind::Network: return "network";
    case PciDevice::Kind::Gpu: return "gpu";
    case PciDevice::Kind::Accelerator: return "accelerator";
  }
  return "";
}

Json processorsOf(const Machine& m) {
  return {{"packages", arrayOf(m.packages,
                               [](const Package& p) {
                                 return Json{{"model", p.model}, {"pus", p.cpus}};
                               })},
          {"numa_nodes", arrayOf(m.numaNodes,
                                 [](const NumaNode& n) {
                                   return Json{{"number", n.number},
                                               {"memory_bytes", n.memoryBytes},
                                               {"package", n.package},
                                               {"pus", n.cpus}};
                                 })},
          {"caches", arrayOf(m.caches,
                             [](const Cache& c) {
                               return Json{{"level", c.level}, {"bytes", c.bytes}, {"pus", c.cpus}};
                             })},
          {"cores", arrayOf(m.cores,
                            [](const Core& c) {
                              return Json{{"pus", c.cpus}};
                            })},
          {"usable_pus", m.usable},
          {"usable_cores", m.usableCores()}};
}

Json portJson(const NicPort& p) {
  return {{"number", p.number},
          {"state", p.state},
          {"link_layer", p.linkLayer},
          {"gigabits_per_second", rateOf(p.gigabitsPerSecond)},
          {"gids", arrayOf(p.gids, [](const Gid& g) {
             return Json{{"index", g.index}, {"address", g.address}, {"type", g.type}};
           })}};
}

Json devicesOf(const Machine& m) {
  return {{"pci_devices", arrayOf(m.pciDevices,
                                  [&](const PciDevice& d) {
                                    return Json{{"address", d.address.describe()},
                                                {"kind", kindName(d.kind)},
                                                {"name", d.name},
                                                {"bridges", d.bridges},
                                                {"numa_nodes", nodesOf(m, d.numaNodes)}};
                                  })},
          {"nics", arrayOf(m.nics,
                           [](const Nic& n) {
                             return Json{{"name", n.name},
                                         {"pci", pciOf(n.pci)},
                                         {"ports", arrayOf(n.ports, portJson)}};
                           })},
          {"interfaces", arrayOf(m.interfaces,
                                 [](const NetworkInterface& i) {
                                   return Json{{"name", i.name},
                                               {"up", i.up},
                                               {"loopback", i.loopback},
                                               {"addresses", i.addresses},
                                               {"gigabits_per_second",
                                                rateOf(i.gigabitsPerSecond.value_or(0))},
                                               {"pci", pciOf(i.pci)}};
                                 })},
          {"gpus", arrayOf(m.gpus, [](const Gpu& g) {
             return Json{{"name", g.name},
                         {"pci", pciOf(g.pci)},
                         {"memory_bytes", g.memoryBytes},
                         {"compute_capability", {g.major, g.minor}},
                         {"uuid", g.uuid},
                         {"nvlinks", g.nvLinks ? Json(*g.nvLinks) : Json(nullptr)},
                         {"reaches", g.reaches}};
           })}};
}

Json distancesOf(const Machine& m, const std::vector<NetworkDevice>& devices) {
  Json all = Json::array();
  const auto add = [&](const char* kind, int number, const MachinePlace& from) {
    for (const NetworkDevice& d : devices)
      all.push_back({{kind, number},
                     {"device", d.name},
                     {"distance", toString(distance(m, from, placeOf(m, d.pci)))}});
  };
  for (size_t i = 0; i < m.gpus.size(); ++i)
    add("gpu", static_cast<int>(i), placeOf(m, m.gpus[i].pci));
  for (size_t i = 0; i < m.numaNodes.size(); ++i)
    add("numa_node", m.numaNodes[i].number, {.numaNodes = {static_cast<int>(i)}});
  for (size_t i = 0; i < m.gpus.size(); ++i)
    for (size_t j = 0; j < m.gpus.size(); ++j)
      if (i != j)
        all.push_back({{"gpu", i},
                       {"to_gpu", j},
                       {"distance", toString(distance(m, placeOf(m, m.gpus[i].pci),
                                                      placeOf(m, m.gpus[j].pci)))}});
  return all;
}

Json ranksOf(const Machine& m, const std::vector<NetworkDevice>& devices, int ranks) {
  const std::vector<CoreBinding> bindings = bindInBlocks(m, ranks);
  const std::vector<ClosestNic> closest = closestNics(m, bindings);
  Json all = Json::array();
  for (size_t rank = 0; rank < bindings.size(); ++rank) {
    const int device = closest[rank].device, gpu = bindings[rank].gpu;
    all.push_back({{"pus", bindings[rank].cpus},
                   {"gpu", gpu < 0 ? Json(nullptr) : Json(gpu)},
                   {"closest_nic", device < 0 ? Json(nullptr) : Json(devices[device].name)},
                   {"distance", toString(closest[rank].distance)}});
  }
  return all;
}

}  // namespace

std::string topoJson(const Machine& m, int ranks) {
  const std::vector<NetworkDevice> devices = networkDevices(m);
  Json json{{"host", m.host}};
  json.update(processorsOf(m));
  json.update(devicesOf(m));
  json["libraries"] = arrayOf(m.libraries, [](const LibraryVersion& l) {
    return Json{{"name", l.name}, {"version", l.version}, {"missing", l.missing}};
  });
  json["problems"] = m.problems;
  json["distances"] = distancesOf(m, devices);
  json["transports"] = arrayOf(transportAnswers(m, ranks), [](const TransportAnswer& a) {
    return Json{{"name", a.name}, {"joins", a.joins}, {"because", a.because}};
  });
  json["gpu_pairs"] = arrayOf(gpuPairs(m, ranks), [](const GpuPair& p) {
    return Json{{"gpus", {p.first, p.second}},
                {"rank_pairs", p.rankPairs},
                {"direct", p.direct},
                {"how", p.how}};
  });
  json["ranks"] = ranksOf(m, devices, ranks);
  return jsonLine(json);
}

}  // namespace tutti::tools
