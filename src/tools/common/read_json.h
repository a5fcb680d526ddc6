#pragma once

// Files of JSON lines that come from outside: nothing in them is believed.

#include <functional>
#include <istream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "src/base/check.h"

namespace tutti::tools {

/// Within limits, and whole where its type is; else throws a reason.
template <class Number>
Number numberIn(const nlohmann::json& found, const std::string& name, Number least, Number most) {
  if (!found.is_number()) throw std::runtime_error(name + " is no number");
  const double value = found.get<double>();
  if (!(value >= static_cast<double>(least)) || !(value <= static_cast<double>(most)))
    throw std::runtime_error(
        base::message(name, " is ", value, ", not between ", least, " and ", most));
  if (std::is_integral_v<Number> && !found.is_number_integer())
    throw std::runtime_error(base::message(name, " is ", value, ", no whole number"));
  return static_cast<Number>(value);
}

/// That of an object.
template <class Number>
Number numberOf(const nlohmann::json& object, const std::string& name, Number least, Number most) {
  const auto found = object.find(name);
  if (found == object.end()) throw std::runtime_error(name + " is no number");
  return numberIn(*found, name, least, most);
}

/// The lines of a regular file of at most 512 MiB, which `flag` names.
std::istringstream jsonLinesOf(const std::string& flag, const std::string& file);

/// Calls `read` with the object of each line. Throws InvalidArgument naming `where` and the line
/// with what it throws, with a line that is no object or longer than 1 MiB, and with more lines
/// than a million.
void readJsonLines(std::istream& lines, const std::string& where,
                   const std::function<void(const nlohmann::json&)>& read);

}  // namespace tutti::tools
