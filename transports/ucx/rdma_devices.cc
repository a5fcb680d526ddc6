#include "transports/ucx/rdma_devices.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tutti::transports::ucx {
namespace {

namespace fs = std::filesystem;

std::string firstLine(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool hasActivePort(const std::string& device) {
  std::error_code none;
  for (const auto& port :
       fs::directory_iterator("/sys/class/infiniband/" + device + "/ports", none))
    if (firstLine(port.path() / "state").ends_with("ACTIVE")) return true;
  return false;
}

}  // namespace

std::vector<std::string> itemsOf(const std::string& list) {
  std::vector<std::string> items;
  std::istringstream in(list);
  for (std::string item; std::getline(in, item, ',');)
    if (!item.empty()) items.push_back(item);
  return items;
}

std::vector<std::string> usableRdmaDevices() {
  std::vector<std::string> devices;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/sys/class/infiniband_verbs", none)) {
    const std::string device = firstLine(entry.path() / "ibdev");
    const fs::path file = fs::path("/dev/infiniband") / entry.path().filename();
    if (!device.empty() && ::access(file.c_str(), R_OK | W_OK) == 0 && hasActivePort(device))
      devices.push_back(device);
  }
  return devices;
}

bool allowsRdma(const std::string& tls) {
  if (tls.empty()) return true;
  if (tls.front() == '^') return !std::ranges::count(itemsOf(tls.substr(1)), "ib");
  return std::ranges::any_of(itemsOf(tls), [](std::string item) {
    if (item.starts_with('\\')) item.erase(0, 1);  // this one, and no auxiliary one
    return item == "all" || std::ranges::any_of(std::array{"ib", "rc", "ud", "dc"},
                                                [&](auto kind) { return item.starts_with(kind); });
  });
}

bool allowsTcp(const std::string& tls) {
  if (tls.empty()) return true;
  if (tls.front() == '^') return !std::ranges::count(itemsOf(tls.substr(1)), "tcp");
  const std::vector<std::string> items = itemsOf(tls);
  return std::ranges::count(items, "tcp") + std::ranges::count(items, "all") > 0;
}

bool allowsDevice(const std::string& devices, const std::string& device) {
  if (devices.empty() || devices.front() == '^') return true;
  return std::ranges::any_of(itemsOf(devices), [&](const std::string& item) {
    return item == "all" || item == device || item.starts_with(device + ":");
  });
}

}  // namespace tutti::transports::ucx
