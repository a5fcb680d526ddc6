#include "tests/emulation/environment.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <sstream>
#include <string>

#include "tests/emulation/emulation.h"
#include "tests/emulation/sanitizers.h"

namespace tutti::emulation {
namespace {

uint64_t number(const char* name, uint64_t otherwise, uint64_t least,
                uint64_t most = uint64_t(1) << 40) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const uint64_t value = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0' || value < least || value > most)
    fail(std::string(name) + "=" + text + " is no number from " + std::to_string(least) + " to " +
         std::to_string(most));
  return value;
}

std::vector<int> visibleOf(int devices, bool isCudas) {
  std::string name = "TUTTI_EMULATION_VISIBLE_DEVICES";
  if (isCudas && std::getenv(name.c_str()) == nullptr) name = "CUDA_VISIBLE_DEVICES";
  const char* at = std::getenv(name.c_str());
  if (at == nullptr) {
    std::vector<int> all(static_cast<size_t>(devices));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  const std::string text = at;
  std::vector<int> visible;
  while (*at != '\0') {
    char* end = nullptr;
    const long device = std::strtol(at, &end, 10);
    if (end == at || (*end != ',' && *end != '\0'))
      fail(name + "=" + text + " is no list of numbers between commas");
    if (device < 0 || device >= devices) break;
    if (std::find(visible.begin(), visible.end(), device) != visible.end())
      fail(name + "=" + text + " has a device twice");
    visible.push_back(static_cast<int>(device));
    at = *end == ',' ? end + 1 : end;
  }
  return visible;
}

/// "0-1:none"
PeerRule ruleOf(const std::string& text, int devices) {
  PeerRule rule;
  char word[8] = {};
  int read = 0;
  const bool isRule =
      std::sscanf(text.c_str(), "%d-%d:%7[a-z]%n", &rule.first, &rule.second, word, &read) == 3 &&
      read == static_cast<int>(text.size());
  const std::string what = word;
  const auto isDevice = [&](int device) { return device >= 0 && device < devices; };
  if (!isRule || (what != "none" && what != "lies") || rule.first == rule.second ||
      !isDevice(rule.first) || !isDevice(rule.second))
    fail("TUTTI_EMULATION_PEERS has \"" + text + "\", and not two of the " +
         std::to_string(devices) + " devices and what they are, as in 0-1:none or 2-3:lies");
  rule.lies = what == "lies";
  return rule;
}

std::vector<PeerRule> rulesOf(int devices) {
  std::vector<PeerRule> rules;
  const char* const text = std::getenv("TUTTI_EMULATION_PEERS");
  if (text == nullptr || *text == '\0') return rules;
  std::istringstream in(text);
  for (std::string rule; std::getline(in, rule, ',');) rules.push_back(ruleOf(rule, devices));
  return rules;
}

Environment read() {
  Environment all;
  all.seed = number("TUTTI_EMULATION_SEED", all.seed, 0);
  all.workers = static_cast<int>(number("TUTTI_EMULATION_WORKERS", 2, 1));
  all.timeoutSeconds = static_cast<int>(number("TUTTI_EMULATION_TIMEOUT", 30, 1));
  const uint64_t stack = kThreadSanitizer || kAddressSanitizer ? 256 : 64;
  all.stackBytes = number("TUTTI_EMULATION_STACK", stack, 16) << 10;
  all.devices = static_cast<int>(number("TUTTI_EMULATION_DEVICES", 4, 0, kMaxDevices));
  all.visible =
      visibleOf(all.devices, number("TUTTI_EMULATION_CUDA_VISIBLE_DEVICES", 0, 0, 1) != 0);
  all.peers = rulesOf(all.devices);
  all.processors = static_cast<int>(number("TUTTI_EMULATION_PROCESSORS", 4, 1, 1024));
  all.memoryBytes = number("TUTTI_EMULATION_MEMORY", 2048, 1, 1 << 20) << 20;
  const uint64_t lazy = number("TUTTI_EMULATION_LAZY_LOADING", 0, 0, 2);
  all.isLoadingLazy = lazy != 0;
  all.isLateLoadingWrong = lazy == 2;
  all.isWaitingLocked = number("TUTTI_EMULATION_LOCKED_WAITS", 0, 0, 1) != 0;
  all.connections = number("CUDA_DEVICE_MAX_CONNECTIONS", all.connections, 1, 32);
  all.pending = number("TUTTI_EMULATION_PENDING", 0, 0);
  return all;
}

}  // namespace

const Environment& environment() {
  static const Environment all = read();
  return all;
}

}  // namespace tutti::emulation
