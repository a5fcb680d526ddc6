#include "transports/shm/memory_limits.h"

#include <charconv>
#include <fstream>
#include <limits>

#include "src/base/check.h"

namespace tutti::transports::shm {
namespace {

// A limit of version 1 that was never set is about 2^63.
constexpr uint64_t kUnlimited = uint64_t{1} << 62;

std::optional<uint64_t> parseNumber(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

std::optional<uint64_t> readNumber(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  return parseNumber(word);  // "max" is no number: no limit
}

// The number after `key` at the start of a line: "MemAvailable:  123 kB", "inactive_file 123".
uint64_t readField(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const size_t digits = line.find_first_of("0123456789", key.size());
    if (digits == std::string::npos) return 0;
    return parseNumber(line.substr(digits)).value_or(0);
  }
  return 0;
}

// How the two versions call the same things.
struct Names {
  const char *limit, *usage, *activeFile, *inactiveFile;
};
constexpr Names kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_active_file ",
                          "total_inactive_file "};
constexpr Names kVersion2{"memory.max", "memory.current", "active_file ", "inactive_file "};

void narrow(std::optional<MemoryRoom>& room, MemoryRoom other) {
  if (!room || other.bytes < room->bytes) room = std::move(other);
}

// The limit of a group and those of all groups around it hold together.
void narrowByCgroup(std::optional<MemoryRoom>& room, const std::string& mount, std::string path,
                    const Names& names, bool whole) {
  while (true) {
    const std::string folder = mount + path + "/";
    const auto limit = readNumber(folder + names.limit);
    const auto used = readNumber(folder + names.usage);
    const auto within = [&] {
      return base::message("memory cgroup ", path.empty() ? "/" : path, " (limit ", *limit,
                           " bytes)");
    };
    if (whole && limit && *limit < kUnlimited) narrow(room, {*limit, within()});
    if (!whole && limit && used && *limit < kUnlimited) {
      const uint64_t cache = readField(folder + "memory.stat", names.activeFile) +
                             readField(folder + "memory.stat", names.inactiveFile);
      const uint64_t kept = *used - std::min(*used, cache);
      narrow(room, {*limit - std::min(*limit, kept), within()});
    }
    if (path.empty()) return;
    path.resize(path.rfind('/'));
  }
}

void narrowByCgroups(std::optional<MemoryRoom>& room, const MemoryFiles& files, bool whole) {
  std::ifstream groups(files.proc + "/self/cgroup");
  std::string line;  // "0::/path" or "4:memory,other:/path"
  while (std::getline(groups, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers =
        base::message(",", line.substr(first + 1, second - first - 1), ",");
    std::string path = line.substr(second + 1);
    if (path.empty() || path[0] != '/') continue;
    if (path == "/") path.clear();
    if (controllers == ",,")
      narrowByCgroup(room, files.cgroup, path, kVersion2, whole);
    else if (controllers.find(",memory,") != std::string::npos)
      narrowByCgroup(room, files.cgroup + "/memory", path, kVersion1, whole);
  }
}

std::optional<MemoryRoom> limits(const MemoryFiles& files, const char* memory, const char* swap,
                                 bool whole) {
  std::optional<MemoryRoom> room;
  const std::string meminfo = files.proc + "/meminfo";
  const uint64_t kilobytes = readField(meminfo, memory) + readField(meminfo, swap);
  if (kilobytes > 0) room = {kilobytes * 1024, kWholeMachine};
  narrowByCgroups(room, files, whole);
  return room;
}

}  // namespace

std::optional<MemoryRoom> memoryRoom(const MemoryFiles& files) {
  return limits(files, "MemAvailable:", "SwapFree:", false);
}

std::optional<MemoryRoom> memoryCapacity(const MemoryFiles& files) {
  return limits(files, "MemTotal:", "SwapTotal:", true);
}

}  // namespace tutti::transports::shm
