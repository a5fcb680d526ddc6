#define XXH_INLINE_ALL
#include "src/plan/plan.h"

#include <xxhash.h>

#include <array>
#include <span>

#include "src/base/check.h"
#include "src/plan/hosts.h"

namespace tutti::plan {
namespace {

constexpr std::array<const char*, kCollectiveCount> kCollectives{
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
    "gather",     "scatter",    "alltoall",       "scan",      "barrier"};
constexpr std::array<const char*, kAlgorithmCount + 1> kAlgorithms{
    "ring", "double_tree", "recursive", "one_shot", "two_shot", "pairwise", "hierarchical", "file"};
constexpr std::array<const char*, 3> kProtocols{"simple", "mapped", "attached"};
constexpr std::array<const char*, 3> kBuffers{"in", "out", "scratch"};

template <size_t N, class T>
const char* name(const std::array<const char*, N>& names, T value) {
  const auto index = static_cast<size_t>(value);
  return index < N ? names[index] : "?";
}

}  // namespace

const char* toString(Collective value) { return name(kCollectives, value); }
const char* toString(Algorithm value) { return name(kAlgorithms, value); }
const char* toString(Protocol value) { return name(kProtocols, value); }
const char* toString(Buffer value) { return name(kBuffers, value); }

std::optional<Collective> parseCollective(const std::string& name) {
  for (size_t i = 0; i < kCollectives.size(); ++i)
    if (name == kCollectives[i]) return static_cast<Collective>(i);
  return {};
}

std::vector<std::string> collectiveNames() { return {kCollectives.begin(), kCollectives.end()}; }
std::optional<Protocol> parseProtocol(const std::string& name) {
  for (const Protocol each : {Protocol::Mapped, Protocol::Attached})
    if (name == toString(each)) return each;
  return {};
}
std::vector<std::string> algorithmNames() {
  std::vector<std::string> names(kAlgorithms.begin(), kAlgorithms.begin() + kAlgorithmCount);
  for (const Protocol each : {Protocol::Mapped, Protocol::Attached})
    names.emplace_back(toString(each));
  return names;
}

uint64_t PlanSpec::hash() const {
  // Every field by value, widened: neither padding nor the order of bytes in a struct enters.
  std::vector<uint64_t> fields{static_cast<uint64_t>(collective),
                               static_cast<uint64_t>(algorithm),
                               static_cast<uint64_t>(protocol),
                               static_cast<uint64_t>(ranks),
                               static_cast<uint64_t>(root),
                               programsHash,
                               static_cast<uint64_t>(channels),
                               divisions,
                               scratchBlocks,
                               messageChunks,
                               static_cast<uint64_t>(minSlots),
                               mapped.in,
                               mapped.out,
                               inPlaceSafe,
                               unevenSafe,
                               canonicalOrder};
  fields.insert(fields.end(), hosts.begin(), hosts.end());
  return XXH3_64bits(fields.data(), fields.size() * sizeof fields[0]);
}

std::string PlanSpec::describe() const {
  std::string line =
      base::message(toString(collective), ' ', toString(algorithm), ' ', toString(protocol), ", ",
                    ranks, ranks == 1 ? " rank" : " ranks");
  if (hasRoot(collective)) line += base::message(", root ", root);
  if (!hosts.empty()) line += base::message(", hosts ", hostsToText(hosts));
  line += base::message(", ", channels, channels == 1 ? " channel" : " channels", ", divisions ",
                        divisions, ", message chunks ", messageChunks, ", slots ", minSlots);
  if (scratchBlocks > 0) line += base::message(", scratch blocks ", scratchBlocks);
  if (mapped.any())
    line += base::message(", maps", mapped.in ? " in" : "", mapped.out ? " out" : "");
  line += inPlaceSafe ? ", in place" : ", not in place";
  if (unevenSafe) line += ", uneven blocks";
  if (canonicalOrder) line += ", canonical order";
  return line;
}

}  // namespace tutti::plan
