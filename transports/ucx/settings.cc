#include "transports/ucx/settings.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

namespace tutti::transports::ucx {

Setting usersSetting(const char* variable) {
  const char* const value = std::getenv(variable);
  return value ? Setting(value) : std::nullopt;
}

Setting effective(const std::string& own, const char* variable) {
  return own.empty() ? usersSetting(variable) : own;
}

bool hasPortRange() {
  const std::string range = usersSetting("UCX_TCP_PORT_RANGE").value_or("");
  return !range.empty() && range != "0";
}

std::vector<std::string> itemsOf(const std::string& list) {
  std::vector<std::string> items;
  std::istringstream in(list);
  for (std::string item; std::getline(in, item, ',');)
    if (!item.empty()) items.push_back(item);
  return items;
}

bool allowsRdma(const Setting& tls) {
  if (!tls) return true;
  if (tls->starts_with('^')) return !std::ranges::count(itemsOf(tls->substr(1)), "ib");
  return std::ranges::any_of(itemsOf(*tls), [](std::string item) {
    if (item.starts_with('\\')) item.erase(0, 1);  // this one, and no auxiliary one
    return item == "all" || std::ranges::any_of(std::array{"ib", "rc", "ud", "dc"},
                                                [&](auto kind) { return item.starts_with(kind); });
  });
}

bool allowsTcp(const Setting& tls) {
  if (!tls) return true;
  if (tls->starts_with('^')) return !std::ranges::count(itemsOf(tls->substr(1)), "tcp");
  const std::vector<std::string> items = itemsOf(*tls);
  return std::ranges::count(items, "tcp") + std::ranges::count(items, "all") > 0;
}

bool allowsDevice(const Setting& devices, const std::string& device) {
  if (!devices || devices->starts_with('^')) return true;
  return std::ranges::any_of(itemsOf(*devices), [&](const std::string& item) {
    return item == "all" || item == device || item.starts_with(device + ":");
  });
}

}  // namespace tutti::transports::ucx
