#pragma once

// Command lines' lists of numbers with names: "dp=2,tp=4".

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tutti::parallel {

using NamedNumbers = std::vector<std::pair<std::string, int64_t>>;

/// In the order of `text`; none for an empty one. Throws InvalidArgument, calling it `what`, for
/// more than kMostNamedNumbers, a part that is not like "dp=2", a name that was there before, and a
/// number that is not from 1 to `most`.
NamedNumbers parseNamedNumbers(const std::string& what, const std::string& text, int64_t most);
inline constexpr size_t kMostNamedNumbers = 64;

}  // namespace tutti::parallel
