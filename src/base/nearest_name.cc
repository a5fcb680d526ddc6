#include "src/base/nearest_name.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

namespace tutti::base {
namespace {

/// What is longer is no slip of a name: the work below grows with the product of two lengths.
constexpr size_t kMostLetters = 100;

char inSmall(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

bool areEqual(char one, char other) { return inSmall(one) == inSmall(other); }

/// How many changes make one of the other: the distance of optimal string alignment.
size_t changesBetween(std::string_view one, std::string_view other) {
  // Of the first i letters of `one` and the first j of `other`: this i, the one before, and that
  // before it.
  std::array<std::vector<size_t>, 3> rows;
  for (auto& row : rows) row.resize(other.size() + 1);
  auto& [current, before, earlier] = rows;
  std::iota(current.begin(), current.end(), size_t{0});
  for (size_t i = 1; i <= one.size(); ++i) {
    earlier.swap(before);
    before.swap(current);
    current[0] = i;
    for (size_t j = 1; j <= other.size(); ++j) {
      const size_t replaced = before[j - 1] + (areEqual(one[i - 1], other[j - 1]) ? 0 : 1);
      current[j] = std::min({before[j] + 1, current[j - 1] + 1, replaced});
      const bool isSwapped = i > 1 && j > 1 && areEqual(one[i - 1], other[j - 2]) &&
                             areEqual(one[i - 2], other[j - 1]);
      if (isSwapped) current[j] = std::min(current[j], earlier[j - 2] + 1);
    }
  }
  return current.back();
}

template <class Name>
std::optional<std::string> nearest(std::string_view word, std::span<const Name> names) {
  std::optional<std::string> found;
  size_t least = kMostLetters;
  if (word.size() > kMostLetters) return found;
  for (const Name& name : names) {
    if (name.size() > kMostLetters) continue;
    const size_t changes = changesBetween(word, name);
    if (changes >= least || 3 * changes > std::max(word.size(), name.size())) continue;
    least = changes;
    found = std::string(name);
  }
  return found;
}

}  // namespace

std::optional<std::string> nearestName(std::string_view word,
                                       std::span<const std::string_view> names) {
  return nearest(word, names);
}

std::optional<std::string> nearestName(std::string_view word, std::span<const std::string> names) {
  return nearest(word, names);
}

std::string listOfNames(std::span<const std::string> names) {
  std::string list;
  for (size_t i = 0; i < names.size(); ++i)
    list += (i == 0 ? "" : i + 1 < names.size() ? ", " : " or ") + names[i];
  return list;
}

std::string didYouMean(std::string_view word, std::span<const std::string> names,
                       std::string_view prefix) {
  const auto meant = nearestName(word, names);
  return meant ? "; did you mean " + std::string(prefix) + *meant + "?" : "";
}

std::string noneOf(std::string_view word, std::span<const std::string> names) {
  return std::string(word) + " is not " + listOfNames(names) + didYouMean(word, names);
}

}  // namespace tutti::base
