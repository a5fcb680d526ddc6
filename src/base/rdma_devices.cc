#include "src/base/rdma_devices.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tutti::base {
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

}  // namespace tutti::base
