#include "src/nccl/environment.h"

#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <vector>

#include <tutti-nccl/nccl.h>

#include "src/base/env.h"
#include "src/base/log.h"
#include "src/nccl/debug_log.h"

namespace tutti::nccl {
namespace {

constexpr std::array<std::string_view, 11> kHonoured{
    "NCCL_ALGO",     "NCCL_COMM_BLOCKING", "NCCL_COMM_ID",      "NCCL_CUMEM_ENABLE",
    "NCCL_DEBUG",    "NCCL_DEBUG_FILE",    "NCCL_DEBUG_SUBSYS", "NCCL_IB_DISABLE",
    "NCCL_MAX_CTAS", "NCCL_SHM_DISABLE",   "NCCL_SOCKET_IFNAME"};

#define TUTTI_WORD(number) TUTTI_WORD_(number)
#define TUTTI_WORD_(number) #number
/// As a whole in the library's file, where `tutti doctor --nccl` finds it.
[[gnu::used]] constexpr char kVersion[] = "NCCL version " TUTTI_WORD(NCCL_MAJOR) "." TUTTI_WORD(
    NCCL_MINOR) "." TUTTI_WORD(NCCL_PATCH) "+tutti" TUTTI_VERSION;
#undef TUTTI_WORD
#undef TUTTI_WORD_

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

std::optional<int> blocksOf(const std::string& text) {
  int blocks = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, blocks);
  if (error != std::errc() || rest != end || blocks < 1) return {};
  return blocks;
}

Environment read() {
  Environment e;
  const std::string blocking = variable("NCCL_COMM_BLOCKING");
  if (blocking == "0" || blocking == "1") e.blocking = blocking == "1";
  e.rendezvousAddress = variable("NCCL_COMM_ID");
  if (variable("TUTTI_ALGORITHM").empty()) e.algorithm = algorithmNamed(variable("NCCL_ALGO"));
  if (variable("TUTTI_GPU_BLOCKS").empty()) e.maxBlocks = blocksOf(variable("NCCL_MAX_CTAS"));
  if (variable("TUTTI_TRANSPORT").empty() && variable("NCCL_SHM_DISABLE") == "1")
    e.transport = "tcp";
  // UCX reads its own settings from the environment, and no worker is made before this.
  if (variable("NCCL_IB_DISABLE") == "1") ::setenv("UCX_TLS", "^ib", 0);
  return e;
}

/// Set, and of a name that is not honoured or with a value that cannot be.
bool ignored(std::string_view name, std::string_view value) {
  if (std::ranges::find(kHonoured, name) == kHonoured.end()) return true;
  if (name == "NCCL_ALGO") return environment().algorithm.empty();
  if (name == "NCCL_DEBUG") return !value.empty() && !parseDebugLevel(std::string(value));
  if (name == "NCCL_CUMEM_ENABLE") return value != "0" && value != "1" && value != "-2";
  if (name == "NCCL_IB_DISABLE" || name == "NCCL_SHM_DISABLE") return value != "0" && value != "1";
  if (name == "NCCL_MAX_CTAS") return !environment().maxBlocks && !value.empty();
  return name == "NCCL_COMM_BLOCKING" && !environment().blocking && !value.empty();
}

void warnOf(std::string text, const std::vector<std::string>& names) {
  if (names.empty()) return;
  for (const std::string& name : names) text += " " + name;
  base::log(LogLevel::Warning, text);
}

// Whoever has set them expects something of them, so they are named also where nobody asked for
// NCCL's lines.
void report() {
  DebugLog& log = DebugLog::ofProcess();
  log.version(kVersion);
  std::vector<std::string> names;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view line = *entry;
    const std::string_view name = line.substr(0, line.find('='));
    if (!name.starts_with("NCCL_") || name.size() == line.size()) continue;
    if (ignored(name, line.substr(name.size() + 1)))
      names.emplace_back(name);
    else
      log.info(Subsystem::Env, name, " set by environment to ", line.substr(name.size() + 1));
  }
  std::ranges::sort(names);
  warnOf("variables without a meaning here, ignored:", names);
  warnOf("NCCL_DEBUG_SUBSYS: words that are no subsystem of NCCL's, ignored:",
         parseSubsystems(variable("NCCL_DEBUG_SUBSYS")).unknown);
}

}  // namespace

// A list, a function's name or an exclusion is for algorithms that this library does not have.
std::string algorithmNamed(const std::string& name) {
  if (::strcasecmp(name.c_str(), "Ring") == 0) return "ring";
  if (::strcasecmp(name.c_str(), "Tree") == 0) return "double_tree";
  return "";
}

std::vector<std::pair<std::string, std::string>> settings() {
  auto all = base::envValues();
  for (const std::string_view name : kHonoured) {
    const auto isNamed = [&](const auto& known) { return known.first == name; };
    if (std::ranges::none_of(all, isNamed))
      all.emplace_back(name, variable(std::string(name).c_str()));
  }
  return all;
}

const Environment& environment() {
  static const auto* const instance = new Environment(read());
  return *instance;
}

void announce() {
  static std::once_flag once;
  std::call_once(once, report);
}

}  // namespace tutti::nccl
