// The checks of what the environment says about transports, devices and the tuning table.

#include <algorithm>

#include "src/base/check.h"
#include "src/base/printable.h"
#include "src/communicator/endpoints.h"
#include "src/tools/doctor/doctor_checks.h"
#include "transports/ucx/quirks.h"
#include "transports/ucx/settings.h"

namespace tutti::tools {
namespace {

using base::message;
using transports::ucx::itemsOf;
using State = Finding::State;

struct DoctoredDevice {
  std::string name;      // as UCX_NET_DEVICES has it
  std::string unusable;  // why it carries nothing to other hosts; empty: it does
};

/// All that UCX_NET_DEVICES may name: ports of NICs, and interfaces, also those of NICs.
std::vector<DoctoredDevice> devicesOf(const topology::Machine& machine) {
  std::vector<DoctoredDevice> devices;
  for (const topology::Nic& nic : machine.nics)
    for (const topology::NicPort& port : nic.ports)
      devices.push_back(
          {message(nic.name, ":", port.number), port.active() ? "" : "its port is " + port.state});
  for (const topology::NetworkInterface& i : machine.interfaces)
    devices.push_back({i.name, i.loopback            ? "it leads every host to itself"
                               : !i.up               ? "it is down"
                               : i.addresses.empty() ? "it has no address"
                                                     : ""});
  return devices;
}

std::string joined(const std::vector<std::string>& items, const char* between) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : between) + item;
  return text;
}

/// Whether UCX takes "mlx5_0" for all ports of that device, and "^eth0" for all devices but that.
/// Up to 1.19 it compares whole names.
bool knowsShortForms(const topology::Machine& machine) {
  const topology::LibraryVersion* const ucx = machine.library("UCX");
  const auto version = ucx ? transports::ucx::parseUcxVersion(ucx->version) : std::nullopt;
  return !version || *version >= transports::ucx::UcxVersion{1, 20, 0};
}

/// What is wrong with an item of UCX_NET_DEVICES; empty where it names a device that can be used.
std::string problemOf(const std::string& item, const std::vector<DoctoredDevice>& devices,
                      bool shortForms) {
  const std::string name = base::printable(shellWord(item));  // a space in it is seen
  std::string problem = name + " is no device here";
  for (const DoctoredDevice& device : devices) {
    const bool ofIts = device.name.starts_with(item + ":");
    if (device.name != item && !ofIts) continue;
    if (ofIts && !shortForms) return message(name, " lacks its port, as in ", device.name);
    if (device.unusable.empty()) return "";
    problem = message(name, ": ", device.unusable);
  }
  return problem;
}

/// Names all devices that can be used, but for some.
std::string useAllBut(const std::vector<std::string>& leftOut,
                      const std::vector<DoctoredDevice>& devices) {
  std::vector<std::string> names;
  for (const DoctoredDevice& device : devices)
    if (device.unusable.empty() && !std::ranges::count(leftOut, device.name))
      names.push_back(device.name);
  return names.empty() ? "unset UCX_NET_DEVICES" : exportOf("UCX_NET_DEVICES", joined(names, ","));
}

}  // namespace

Finding checkUcxDevices(const DoctorFacts& f) {
  if (!f.ucxDevices) return {.check = "UCX devices", .measured = "UCX_NET_DEVICES is not set"};
  const std::string& value = *f.ucxDevices;
  Finding found{.check = "UCX devices", .measured = "UCX_NET_DEVICES=" + base::printable(value)};
  const std::vector<DoctoredDevice> devices = devicesOf(f.machine);
  const bool shortForms = knowsShortForms(f.machine);
  if (value.empty()) {
    found.state = State::Wrong;
    found.measured = "UCX_NET_DEVICES is set and empty, which names no device";
    found.why = "ranks of other hosts cannot be reached";
    found.mend = "unset UCX_NET_DEVICES";
    return found;
  }
  if (value.front() == '^') {
    if (shortForms) return found;
    found.state = State::Wrong;
    found.measured += ": this UCX leaves out no devices";
    found.why = "it takes the ^ for a part of a name, and finds no such device";
    found.mend = useAllBut(itemsOf(value.substr(1)), devices);
    return found;
  }
  std::vector<std::string> good, problems;
  const std::vector<std::string> items = itemsOf(value);
  if (items.empty()) problems.push_back("it names none");
  for (const std::string& item : items) {
    const std::string problem = item == "all" ? "" : problemOf(item, devices, shortForms);
    (problem.empty() ? good : problems).push_back(problem.empty() ? item : problem);
  }
  if (problems.empty()) return found;
  found.measured += ": " + joined(problems, "; ");
  if (good.empty()) {
    found.state = State::Wrong;
    found.why = "ranks of other hosts cannot be reached so";
    found.mend = useAllBut({}, devices);
  } else {
    found.state = State::Slow;
    found.why = "UCX goes by the others alone";
    found.mend = exportOf("UCX_NET_DEVICES", joined(good, ","));
  }
  return found;
}

Finding checkUcxTransports(const DoctorFacts& f) {
  if (!f.ucxTransports) return {.check = "UCX transports", .measured = "UCX_TLS is not set"};
  const std::string& value = *f.ucxTransports;
  Finding found{.check = "UCX transports", .measured = "UCX_TLS=" + base::printable(value)};
  if (value.empty()) {
    found.state = State::Wrong;
    found.measured = "UCX_TLS is set and empty, which UCX does not take";
    found.why = "ranks of other hosts cannot be reached, nor any by TUTTI_TRANSPORT=ucx";
    found.mend = "unset UCX_TLS";
    return found;
  }
  if (transports::ucx::allowsTcp(value)) return found;
  const bool rdma = transports::ucx::allowsRdma(value);
  const bool port = std::ranges::any_of(topology::networkDevices(f.machine),
                                        [](const auto& d) { return d.rdma && d.unusable.empty(); });
  if (rdma && port) return found;
  found.state = State::Wrong;
  found.measured += rdma ? " leaves RDMA alone between hosts, and no port of a NIC is active here"
                         : " leaves nothing that joins hosts";
  found.why = "ranks of other hosts cannot be reached";
  std::vector<std::string> items = itemsOf(value);
  items.push_back("tcp");
  found.mend = value.starts_with('^') ? "unset UCX_TLS" : exportOf("UCX_TLS", joined(items, ","));
  return found;
}

Finding checkTransport(const DoctorFacts& f) {
  Finding found{.check = "transport", .measured = "TUTTI_TRANSPORT=" + f.transport};
  const auto& known = communicator::kTransports;
  if (f.transport.empty()) {
    found.measured = "TUTTI_TRANSPORT is not set";
  } else if (std::ranges::find(known, f.transport) == std::end(known)) {
    found.state = State::Wrong;
    found.measured += " is not shm, tcp, ucx, shm+tcp or shm+ucx";
    found.why = "no communicator can be made";
    found.mend = "unset TUTTI_TRANSPORT";
  } else if (f.transport == "shm") {
    found.state = State::Note;
    found.why = "ranks of several hosts cannot be in one communicator";
    found.mend = "if they are to be: unset TUTTI_TRANSPORT";
  }
  return found;
}

Finding checkTuning(const DoctorFacts& f) {
  if (f.tuning.empty()) return {.check = "tuning", .measured = "TUTTI_TUNING is not set"};
  if (f.readTuning.empty()) return {.check = "tuning", .measured = "TUTTI_TUNING=" + f.tuning};
  return {.check = "tuning",
          .state = State::Wrong,
          .measured = "TUTTI_TUNING: " + f.readTuning,
          .why = "rank 0 reads it whenever a communicator is made, and cannot",
          .mend = message("unset TUTTI_TUNING; or measure anew: tutti tune -n ", f.ranks,
                          " -o tuning.txt")};
}

Finding checkFoundNccl(const DoctorFacts& f) {
  if (!f.nccl) return {.check = "libnccl.so.2", .measured = "the loader finds none"};
  Finding found{.check = "libnccl.so.2", .measured = f.nccl->describe()};
  if (f.nccl->isTutti) return found;
  found.state = State::Note;
  found.why = "programs that use NCCL load this one, unless they have a path of their own";
  const std::string library =
      f.ownNccl.empty() ? "PREFIX/lib/tutti-nccl/libnccl.so.2" : shellWord(f.ownNccl);
  found.mend = message("to use Tutti: LD_PRELOAD=", library, " PROGRAM");
  return found;
}

Finding checkVariables(const DoctorFacts& f) {
  if (f.unknownVariables.empty())
    return {.check = "variables", .measured = "all that begin with TUTTI_ have a meaning"};
  return {.check = "variables",
          .state = State::Note,
          .measured = "without a meaning: " + joined(f.unknownVariables, ", "),
          .why = "nothing reads them",
          .mend = "see tutti-environment(7) for the names"};
}

}  // namespace tutti::tools
