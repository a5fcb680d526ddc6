#include "parallel/sharding/named_numbers.h"

#include <algorithm>
#include <charconv>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

NamedNumbers parseNamedNumbers(const std::string& what, const std::string& text, int64_t most) {
  NamedNumbers numbers;
  if (text.empty()) return numbers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = part.find('=');
    require(equals != std::string::npos && equals > 0, what, " \"", text, "\": \"", part,
            "\" is not like name=number");
    const std::string name = part.substr(0, equals);
    require(std::ranges::find(numbers, name, &NamedNumbers::value_type::first) == numbers.end(),
            what, " \"", text, "\": ", name, " is there twice");
    require(numbers.size() < kMostNamedNumbers, what, " has more than ", kMostNamedNumbers,
            " numbers");
    int64_t number = 0;
    const char *const first = part.data() + equals + 1, *const last = part.data() + part.size();
    const auto [rest, error] = std::from_chars(first, last, number);
    require(error == std::errc() && rest == last && number >= 1 && number <= most, what, " \"",
            text, "\": ", name, " is \"", std::string(first, last), "\", not a number from 1 to ",
            most);
    numbers.emplace_back(name, number);
  }
  return numbers;
}

}  // namespace tutti::parallel
