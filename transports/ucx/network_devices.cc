#include "transports/ucx/network_devices.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/printable.h"
#include "transports/ucx/library.h"
#include "transports/ucx/settings.h"

namespace tutti::transports::ucx {
namespace {

constexpr const char* kDevices = "UCX_NET_DEVICES";
constexpr const char* kTransports = "UCX_TLS";

std::string joined(const std::vector<std::string>& items, const char* between) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : between) + item;
  return text;
}

/// "UCX_TLS=tcp", for those that the user has set and that count.
std::vector<std::string> usersSettings(const WorkerOptions& options) {
  std::vector<std::string> settings;
  for (const auto& [own, variable] :
       {std::pair(options.tls, kTransports), std::pair(options.devices, kDevices)})
    if (const Setting value = usersSetting(variable); value && own.empty())
      settings.push_back(base::message(variable, "=", base::printable(*value)));
  return settings;
}

/// What UCX prints about a context; empty where there is no memory for it.
std::string printed(ucp_context_h context) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* const stream = ::open_memstream(&text, &size);
  if (!stream) return {};
  library().contextPrintInfo(context, stream);
  std::fclose(stream);
  const std::unique_ptr<char, decltype(&std::free)> owner(text, &std::free);
  return {text, size};
}

/// The host's own memory and its GPUs are devices to UCX, too.
bool leadsToOtherHosts(const std::string& device) {
  return std::ranges::none_of(std::array{"memory", "cuda", "rocm"},
                              [&](const char* kind) { return device.starts_with(kind); });
}

/// Those that UCX has where no setting forbids any.
std::vector<std::string> allNetworkDevices() {
  const UcxLibrary& ucp = library();
  ucp_config_t* config = nullptr;
  if (ucp.configRead(nullptr, nullptr, &config) != UCS_OK) return {};
  ucp.configModify(config, "NET_DEVICES", "all");
  ucp.configModify(config, "TLS", "all");
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM;
  ucp_context_h context = nullptr;
  const ucs_status_t status =
      ucp.initVersion(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context);
  ucp.configRelease(config);
  if (status != UCS_OK) return {};
  const auto devices = networkDevices(context);
  ucp.cleanup(context);
  return devices.value_or(std::vector<std::string>());
}

struct InterfaceAddress {
  std::string name;
  bool isLoopback;
  SourceAddress address;
  std::optional<uint32_t> of4;
};
/// Of interfaces that are up.
std::vector<InterfaceAddress> interfaceAddresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<InterfaceAddress> all;
  for (const ifaddrs* each = list; each; each = each->ifa_next) {
    if (!each->ifa_addr || (each->ifa_flags & IFF_UP) == 0) continue;
    const auto address = sourceAddress(*each->ifa_addr);
    if (!address) continue;
    all.push_back({each->ifa_name, (each->ifa_flags & IFF_LOOPBACK) != 0, *address, std::nullopt});
    if (each->ifa_addr->sa_family == AF_INET)
      all.back().of4 = reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr.s_addr;
  }
  return all;
}

}  // namespace

std::vector<uint32_t> ownAddresses() {
  std::vector<uint32_t> own;
  for (const InterfaceAddress& each : interfaceAddresses())
    if (each.of4) own.push_back(*each.of4);
  return own;
}

std::vector<SourceAddress> sourcesFor(const std::optional<std::vector<std::string>>& devices) {
  std::vector<InterfaceAddress> all = interfaceAddresses();
  const auto isDevice = [&](const InterfaceAddress& each) {
    return !devices || std::ranges::count(*devices, each.name) > 0;
  };
  const bool usesLoopback = std::ranges::any_of(
      all, [&](const InterfaceAddress& each) { return each.isLoopback && isDevice(each); });
  std::erase_if(all,
                [&](const InterfaceAddress& each) { return each.isLoopback && !usesLoopback; });
  std::stable_partition(all.begin(), all.end(), isDevice);
  if (all.size() > kMostSources) {
    base::log(LogLevel::Info, "of ", all.size(), " addresses of this host peers are told ",
              kMostSources, "; UCX may connect to them from these alone");
    all.resize(kMostSources);
  }
  std::vector<SourceAddress> sources;
  for (const InterfaceAddress& each : all) sources.push_back(each.address);
  return sources;
}

std::vector<uint32_t> addressesOf(const std::vector<std::string>& devices) {
  const std::vector<InterfaceAddress> all = interfaceAddresses();
  std::vector<uint32_t> found;
  for (const std::string& device : devices) {
    const auto first = std::ranges::find_if(
        all, [&](const InterfaceAddress& each) { return each.of4 && each.name == device; });
    if (first == all.end()) return {};
    found.push_back(*first->of4);
  }
  return found;
}

std::string describeAddress(uint32_t address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  return ::inet_ntop(AF_INET, &address, text.data(), text.size());
}

// A line is "#      resource 1  :  md 1  dev 1  flags -- tcp/eth0". What does not look so is not
// taken for a context without devices.
std::optional<std::vector<std::string>> networkDevices(ucp_context_h context) {
  std::vector<std::string> devices;
  bool any = false;
  std::istringstream lines(printed(context));
  for (std::string line; std::getline(lines, line);) {
    const size_t slash = line.rfind('/');
    if (line.find(" resource ") == std::string::npos || slash == std::string::npos) continue;
    any = true;
    const std::string device = line.substr(slash + 1, line.find_last_not_of(' ') - slash);
    if (leadsToOtherHosts(device) && !std::ranges::count(devices, device))
      devices.push_back(device);
  }
  std::ranges::sort(devices);  // UCX has them in any order
  return any ? std::optional(devices) : std::nullopt;
}

std::string describeDevices(const WorkerOptions& options,
                            const std::optional<std::vector<std::string>>& devices) {
  std::vector<std::string> all = usersSettings(options);
  if (!options.chosenBy.empty()) all.push_back(base::printable(options.chosenBy));
  const std::string settings = joined(all, ", ");
  return (!devices           ? "what UCX has chosen"
          : devices->empty() ? "no network device"
                             : joined(*devices, ",")) +
         (settings.empty() ? "" : " (" + settings + ")");
}

void failWithoutDevice(const WorkerOptions& options, const char* wanted) {
  std::vector<std::string> settings = usersSettings(options);
  if (!options.tls.empty()) settings.push_back("transports " + options.tls);
  if (!options.devices.empty()) settings.push_back("device " + options.devices);
  const std::vector<std::string> all = allNetworkDevices();
  base::fail(ErrorCode::System, "UCX finds no device", wanted, " for ",
             settings.empty() ? "any of its transports" : joined(settings, " and "),
             "; without settings it has here ",
             all.empty() ? "no network device" : joined(all, ", "),
             "; TUTTI_LOG=info shows what UCX says itself");
}

}  // namespace tutti::transports::ucx
