#include "transports/shm/memory_limits.h"

#include <algorithm>
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
void narrowByCgroups(std::optional<MemoryRoom>& room, const base::CgroupFiles& files, bool whole) {
  for (const base::Cgroup& group : base::cgroupsOf("memory", files)) {
    const Names& names = group.version == 1 ? kVersion1 : kVersion2;
    const auto limit = readNumber(group.folder + names.limit);
    const auto used = readNumber(group.folder + names.usage);
    if (!limit || *limit >= kUnlimited || (!whole && !used)) continue;
    uint64_t left = *limit;
    if (!whole) {
      const std::string stat = group.folder + "memory.stat";
      const uint64_t cache =
          readField(stat, names.activeFile) + readField(stat, names.inactiveFile);
      const uint64_t kept = *used - std::min(*used, cache);
      left -= std::min(left, kept);
    }
    narrow(room,
           {left, base::message("memory cgroup ", group.path, " (limit ", *limit, " bytes)")});
  }
}

std::optional<MemoryRoom> limits(const base::CgroupFiles& files, const char* memory,
                                 const char* swap, bool whole) {
  std::optional<MemoryRoom> room;
  const std::string meminfo = files.proc + "/meminfo";
  const uint64_t kilobytes = readField(meminfo, memory) + readField(meminfo, swap);
  if (kilobytes > 0) room = {kilobytes * 1024, kWholeMachine};
  narrowByCgroups(room, files, whole);
  return room;
}

}  // namespace

std::optional<MemoryRoom> memoryRoom(const base::CgroupFiles& files) {
  return limits(files, "MemAvailable:", "SwapFree:", false);
}

std::optional<MemoryRoom> memoryCapacity(const base::CgroupFiles& files) {
  return limits(files, "MemTotal:", "SwapTotal:", true);
}

}  // namespace tutti::transports::shm
