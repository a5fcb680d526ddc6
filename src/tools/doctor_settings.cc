// The checks of what the environment says about transports, devices and the tuning table.

#include <fnmatch.h>

#include <algorithm>
#include <sstream>

#include "src/base/check.h"
#include "src/communicator/endpoints.h"
#include "src/tools/doctor_checks.h"
#include "transports/ucx/rdma_devices.h"

namespace tutti::tools {
namespace {

using base::message;
using State = Finding::State;

struct Device {
  std::string name;      // as UCX_NET_DEVICES has it
  std::string unusable;  // why it carries nothing to other hosts; empty: it does
};

/// All that UCX_NET_DEVICES may name: ports of NICs, and interfaces, also those of NICs.
std::vector<Device> devicesOf(const topology::Machine& machine) {
  std::vector<Device> devices;
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

/// "mlx5_0:1", "mlx5_0" for all of its ports, or a pattern, "mlx5_*".
bool names(const std::string& item, const std::string& device) {
  return device.starts_with(item + ":") || ::fnmatch(item.c_str(), device.c_str(), 0) == 0;
}

/// What is wrong with an item of UCX_NET_DEVICES; empty where it names a device that can be used.
std::string problemOf(const std::string& item, const std::vector<Device>& devices) {
  std::string problem = item + " is no device here";
  for (const Device& device : devices) {
    if (!names(item, device.name)) continue;
    if (device.unusable.empty()) return "";
    problem = message(item, ": ", device.unusable);
  }
  return problem;
}

}  // namespace

Finding checkUcxDevices(const DoctorFacts& f) {
  Finding found{.check = "UCX devices"};
  const std::string& value = f.ucxDevices;
  if (value.empty()) {
    found.measured = "UCX_NET_DEVICES is not set";
    return found;
  }
  found.measured = "UCX_NET_DEVICES=" + value;
  if (value.starts_with('^')) return found;  // all but these
  const std::vector<Device> devices = devicesOf(f.machine);
  std::vector<std::string> good, problems;
  std::istringstream in(value);
  for (std::string item; std::getline(in, item, ',');) {
    const std::string problem = item == "all" ? "" : problemOf(item, devices);
    (problem.empty() ? good : problems).push_back(problem.empty() ? item : problem);
  }
  if (problems.empty()) return found;
  found.measured += ": " + joined(problems, "; ");
  found.state = good.empty() ? State::Wrong : State::Slow;
  found.why = good.empty() ? "ranks of other hosts cannot be reached by any of them"
                           : "UCX goes by the others alone";
  if (good.empty())
    for (const Device& device : devices)
      if (device.unusable.empty()) good.push_back(device.name);
  found.mend =
      good.empty() ? "unset UCX_NET_DEVICES" : "export UCX_NET_DEVICES=" + joined(good, ",");
  return found;
}

Finding checkUcxTransports(const DoctorFacts& f) {
  Finding found{.check = "UCX transports"};
  const std::string& value = f.ucxTransports;
  if (value.empty()) {
    found.measured = "UCX_TLS is not set";
    return found;
  }
  found.measured = "UCX_TLS=" + value;
  if (transports::ucx::allowsTcp(value)) return found;
  const bool rdma = transports::ucx::allowsRdma(value);
  const bool port = std::ranges::any_of(topology::networkDevices(f.machine),
                                        [](const auto& d) { return d.rdma && d.unusable.empty(); });
  if (rdma && port) return found;
  found.state = State::Wrong;
  found.measured += rdma ? " leaves RDMA alone between hosts, and no port of a NIC is active here"
                         : " leaves nothing that joins hosts";
  found.why = "ranks of other hosts cannot be reached";
  found.mend = value.starts_with('^') ? "unset UCX_TLS" : message("export UCX_TLS=", value, ",tcp");
  return found;
}

Finding checkTransport(const DoctorFacts& f) {
  Finding found{.check = "transport", .measured = "TUTTI_TRANSPORT=" + f.transport};
  const auto& known = communicator::kTransports;
  if (f.transport.empty()) {
    found.measured = "TUTTI_TRANSPORT is not set";
  } else if (std::ranges::find(known, f.transport) == std::end(known)) {
    found.state = State::Wrong;
    found.measured += " is not shm or ucx";
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

}  // namespace tutti::tools
