#include "src/plan/hosts.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "src/base/check.h"

namespace tutti::plan {
namespace {

template <class List>
std::string joined(const List& numbers, const char* between) {
  std::string text;
  for (const auto number : numbers) text += base::message(text.empty() ? "" : between, number);
  return text;
}

}  // namespace

std::vector<int> hostsInOrder(std::span<const int> hostOf) {
  std::unordered_map<int, int> numbers;
  std::vector<int> hosts;
  for (const int host : hostOf)
    hosts.push_back(numbers.try_emplace(host, static_cast<int>(numbers.size())).first->second);
  if (numbers.size() == 1) hosts.clear();
  return hosts;
}

std::vector<std::vector<int>> ranksByHost(std::span<const int> hosts, int ranks) {
  if (hosts.empty()) {
    std::vector<std::vector<int>> all(1, std::vector<int>(static_cast<size_t>(ranks)));
    std::iota(all[0].begin(), all[0].end(), 0);
    return all;
  }
  std::vector<std::vector<int>> found(static_cast<size_t>(std::ranges::max(hosts)) + 1);
  for (size_t rank = 0; rank < hosts.size(); ++rank)
    found[static_cast<size_t>(hosts[rank])].push_back(static_cast<int>(rank));
  return found;
}

std::string hostsToText(std::span<const int> hosts) {
  if (!std::ranges::is_sorted(hosts)) return joined(hosts, " ");
  std::vector<size_t> sizes;
  for (const auto& host : ranksByHost(hosts, 0)) sizes.push_back(host.size());
  const bool even = std::ranges::adjacent_find(sizes, std::not_equal_to<>()) == sizes.end();
  return even ? base::message(sizes.size(), 'x', sizes[0]) : joined(sizes, ",");
}

}  // namespace tutti::plan
