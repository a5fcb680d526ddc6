// A machine in words. Each line begins with a label, so that a person finds what he looks for and
// grep does too.

#include <algorithm>
#include <map>
#include <set>

#include "src/base/check.h"
#include "src/base/table.h"
#include "src/tools/common/page.h"
#include "src/tools/common/units.h"
#include "src/tools/topo/topo_report.h"
#include "src/topology/distance.h"
#include "src/topology/transports.h"

namespace tutti::tools {
namespace {

using namespace topology;

constexpr size_t kLabel = 14;

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
  return text;
}

/// "PCI 0000:3b:00.0, NUMA node 0"; empty for what has no place.
std::string placeText(const Machine& m, const std::optional<PciAddress>& pci) {
  if (!pci) return {};
  std::string text = "PCI " + pci->describe();
  for (const int node : placeOf(m, pci).numaNodes)
    text += base::message(", NUMA node ", m.numaNodes[node].number);
  return text;
}

std::string withPlace(const std::string& text, const std::string& place) {
  return place.empty() ? text : text + ", " + place;
}

/// "2 L1 of 32 KiB, 1 L3 of 32 MiB".
std::string cachesText(const Machine& m) {
  std::map<std::pair<int, uint64_t>, int> counts;
  for (const Cache& c : m.caches) ++counts[{c.level, c.bytes}];
  std::vector<std::string> parts;
  for (const auto& [key, count] : counts)
    parts.push_back(base::message(count, " L", key.first, " of ", bytesText(key.second)));
  return joined(parts, ", ");
}

void writeProcessors(Page& page, const Machine& m) {
  page.raw(base::message(m.host, ": ", countText(m.packages.size(), "package"), ", ",
                         countText(m.numaNodes.size(), "NUMA node"), ", ",
                         countText(m.cores.size(), "core"), "; this process may use ",
                         countText(static_cast<uint64_t>(m.usableCores()), "core"), " (",
                         numbersText("PU", m.usable), ")"));
  for (size_t i = 0; i < m.packages.size(); ++i)
    page.line(base::message("package ", i),
              withPlace(m.packages[i].model.empty() ? "unnamed" : m.packages[i].model,
                        numbersText("PU", m.packages[i].cpus)));
  for (const NumaNode& node : m.numaNodes)
    page.line(base::message("NUMA node ", node.number),
              base::message(bytesText(node.memoryBytes),
                            node.cpus.empty() ? ", no PU" : ", " + numbersText("PU", node.cpus)));
  if (!m.caches.empty()) page.line("caches", cachesText(m));
}

void writeNics(Page& page, const Machine& m) {
  const LibraryVersion* verbs = m.library("libibverbs");
  if (m.nics.empty())
    page.line("NIC", verbs && !verbs->missing.empty() ? "none is seen: " + verbs->missing
                                                      : "no RDMA device");
  for (const Nic& nic : m.nics) {
    const std::string place = placeText(m, nic.pci);
    page.line(nic.name, place.empty() ? "no PCI device" : place);
    for (const NicPort& port : nic.ports) {
      std::vector<std::string> types;
      for (const Gid& gid : port.gids)
        if (!std::ranges::count(types, gid.type) && !gid.type.empty()) types.push_back(gid.type);
      page.line(base::message("  port ", port.number),
                base::message(
                    port.state, port.linkLayer.empty() ? "" : ", " + port.linkLayer, ", ",
                    port.gigabitsPerSecond > 0 ? rateText(port.gigabitsPerSecond) : "speed unknown",
                    ", ", countText(port.gids.size(), "GID"),
                    types.empty() ? "" : " (" + joined(types, ", ") + ")"));
    }
  }
}

void writeInterfaces(Page& page, const Machine& m) {
  for (const NetworkInterface& i : m.interfaces) {
    std::string text = i.up ? "up" : "down";
    text += ", " + (i.addresses.empty() ? "no address" : joined(i.addresses, " "));
    if (i.loopback)
      text += ", loopback";
    else
      text += i.gigabitsPerSecond ? ", " + rateText(*i.gigabitsPerSecond) : ", speed unknown";
    page.line(i.name, withPlace(text, placeText(m, i.pci)));
  }
}

/// "18 NVLinks", "closest NIC mlx5_0:1 (PIX)", "GPU-...".
std::vector<std::string> detailsOf(const Machine& m, int index) {
  const Gpu& gpu = m.gpus[static_cast<size_t>(index)];
  std::vector<std::string> parts;
  parts.push_back(gpu.nvLinks ? countText(static_cast<uint64_t>(*gpu.nvLinks), "NVLink")
                              : "NVLinks unknown");
  const CoreBinding binding{.gpu = index};
  if (const ClosestNic closest = closestNics(m, {&binding, 1})[0]; closest.device >= 0)
    parts.push_back(base::message("closest NIC ",
                                  networkDevices(m)[static_cast<size_t>(closest.device)].name, " (",
                                  toString(closest.distance), ")"));
  if (!gpu.uuid.empty()) parts.push_back(gpu.uuid);
  return parts;
}

void writeGpus(Page& page, const Machine& m) {
  const LibraryVersion* cuda = m.library("CUDA driver");
  if (m.gpus.empty())
    page.line("GPU", cuda && !cuda->missing.empty()
                         ? "none is seen, no CUDA driver: " + cuda->missing
                         : "none");
  for (size_t i = 0; i < m.gpus.size(); ++i) {
    const Gpu& gpu = m.gpus[i];
    CpuSet peers;
    for (size_t other = 0; other < gpu.reaches.size(); ++other)
      if (other != i && gpu.reaches[other]) peers.push_back(static_cast<int>(other));
    const std::string text = base::message(gpu.name, ", ", bytesText(gpu.memoryBytes),
                                           ", compute capability ", gpu.major, ".", gpu.minor);
    page.line(base::message("GPU ", i),
              base::message(withPlace(text, placeText(m, gpu.pci)), ", reaches ",
                            peers.empty() ? "no other" : numbersText("GPU", peers)));
    page.line("", joined(detailsOf(m, static_cast<int>(i)), ", "));
  }
}

void writeLibraries(Page& page, const Machine& m) {
  std::vector<std::string> parts;
  for (const LibraryVersion& library : m.libraries)
    parts.push_back(library.version.empty() ? "no " + library.name
                                            : library.name + " " + library.version);
  page.line("libraries", joined(parts, ", "));
  for (const std::string& problem : m.problems) page.line("not read", problem);
}

struct LinkEnd {
  std::string name;
  MachinePlace place;
};

std::vector<LinkEnd> gpusOf(const Machine& m) {
  std::vector<LinkEnd> ends;
  for (size_t i = 0; i < m.gpus.size(); ++i)
    ends.push_back({base::message("GPU ", i), placeOf(m, m.gpus[i].pci)});
  return ends;
}

std::vector<LinkEnd> rowsOf(const Machine& m) {
  std::vector<LinkEnd> rows = gpusOf(m);
  for (size_t i = 0; i < m.numaNodes.size(); ++i)
    rows.push_back(
        {base::message("NUMA ", m.numaNodes[i].number), {.numaNodes = {static_cast<int>(i)}}});
  return rows;
}

std::vector<LinkEnd> columnsOf(const Machine& m) {
  std::vector<LinkEnd> columns = gpusOf(m);
  for (const NetworkDevice& d : networkDevices(m)) columns.push_back({d.name, placeOf(m, d.pci)});
  return columns;
}

/// As many columns at a time as a page has.
void writeDistances(Page& page, const Machine& m) {
  const std::vector<LinkEnd> columns = columnsOf(m);
  if (columns.empty()) return;
  page.heading("How far");
  size_t width = 0;  // of a column and the two spaces behind it
  for (const LinkEnd& column : columns) width = std::max(width, column.name.size() + 2);
  const size_t fitting = std::max<size_t>(1, (Page::kColumns - kLabel) / width);
  std::vector<base::TableColumn> places(fitting + 1, {.width = width, .gap = 0, .left = true});
  places[0].width = kLabel;
  const base::TextTable table(std::move(places));
  std::set<Distance> met;
  for (size_t first = 0; first < columns.size(); first += fitting) {
    const size_t last = std::min(columns.size(), first + fitting);
    base::TextTable::Cells head{""};
    for (size_t i = first; i < last; ++i) head.push_back(columns[i].name);
    page.rows(table.row(head));
    for (const LinkEnd& row : rowsOf(m)) {
      base::TextTable::Cells cells{row.name};
      for (size_t i = first; i < last; ++i) {
        if (row.name == columns[i].name) {
          cells.emplace_back("-");
          continue;
        }
        const Distance d = distance(m, row.place, columns[i].place);
        met.insert(d);
        cells.emplace_back(toString(d));
      }
      page.rows(table.row(cells));
    }
  }
  std::vector<std::string> words;
  for (const Distance d : met) words.push_back(base::message(toString(d), ": ", meaning(d)));
  page.line("", joined(words, "; "));
}

void writeTransports(Page& page, const Machine& m, int ranks) {
  page.heading(base::message("Transports for ", countText(static_cast<uint64_t>(ranks), "rank"),
                             " on this host"));
  for (const TransportAnswer& answer : transportAnswers(m, ranks))
    page.line(answer.name, answer.describe());
}

void writeClosestNics(Page& page, const Machine& m, int ranks) {
  page.heading("Closest NIC of each rank, bound in equal parts");
  const std::vector<NetworkDevice> devices = networkDevices(m);
  const std::vector<CoreBinding> bindings = bindInBlocks(m, ranks);
  const std::vector<ClosestNic> closest = closestNics(m, bindings);
  for (size_t rank = 0; rank < bindings.size(); ++rank) {
    std::string text = numbersText("PU", bindings[rank].cpus);
    if (bindings[rank].gpu >= 0) text = base::message("GPU ", bindings[rank].gpu, ", ", text);
    text += closest[rank].device < 0 ? ": none"
                                     : base::message(": ", devices[closest[rank].device].name, " (",
                                                     toString(closest[rank].distance), ")");
    page.line(base::message("rank ", rank), text);
  }
}

}  // namespace

std::string topoText(const Machine& m, int ranks) {
  Page page(kLabel);
  writeProcessors(page, m);
  page.heading("Network");
  writeNics(page, m);
  writeInterfaces(page, m);
  page.heading("GPUs and libraries");
  writeGpus(page, m);
  writeLibraries(page, m);
  writeDistances(page, m);
  writeTransports(page, m, ranks);
  writeClosestNics(page, m, ranks);
  return std::move(page).take();
}

}  // namespace tutti::tools
