#include "transports/ucx/locked_memory.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "src/base/check.h"

namespace tutti::transports::ucx {
namespace {

namespace fs = std::filesystem;

/// The limit does not hold for who has CAP_IPC_LOCK.
bool limited() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  if (::syscall(SYS_capget, &header, sets.data()) != 0) return true;
  return (sets[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) == 0;
}

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

/// Those that this process may open and whose link is up. In a container a device may be seen and
/// not be there.
std::vector<std::string> usableDevices() {
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

std::vector<std::string> itemsOf(const std::string& list) {
  std::vector<std::string> items;
  std::istringstream in(list);
  for (std::string item; std::getline(in, item, ',');) items.push_back(item);
  return items;
}

}  // namespace

bool allowsRdma(const std::string& tls) {
  if (tls.empty()) return true;
  if (tls.front() == '^') return !std::ranges::count(itemsOf(tls.substr(1)), "ib");
  return std::ranges::any_of(itemsOf(tls), [](std::string item) {
    if (item.starts_with('\\')) item.erase(0, 1);  // this one, and no auxiliary one
    return item == "all" || std::ranges::any_of(std::array{"ib", "rc", "ud", "dc"},
                                                [&](auto kind) { return item.starts_with(kind); });
  });
}

bool allowsDevice(const std::string& devices, const std::string& device) {
  if (devices.empty() || devices.front() == '^') return true;
  return std::ranges::any_of(itemsOf(devices), [&](const std::string& item) {
    return item == "all" || item == device || item.starts_with(device + ":");
  });
}

void requireLockableMemory(const std::string& devices, const std::string& tls) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur >= kLeastLockedBytes ||
      !limited() || !allowsRdma(tls))
    return;
  for (const std::string& device : usableDevices())
    if (allowsDevice(devices, device))
      base::fail(ErrorCode::System, "RDMA device ", device, " needs memory that can be locked, ",
                 kLeastLockedBytes, " bytes and more, and this process may lock ", limit.rlim_cur,
                 " (RLIMIT_MEMLOCK): raise the limit (ulimit -l unlimited), or do without RDMA "
                 "(UCX_TLS=tcp,self)");
}

}  // namespace tutti::transports::ucx
