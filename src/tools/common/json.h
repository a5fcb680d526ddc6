#pragma once

// What the tools' JSON is made of: objects whose members stay in the order in which they are
// written.

#include <nlohmann/json.hpp>
#include <string>

namespace tutti::tools {

using Json = nlohmann::ordered_json;

/// An array with what `make` makes of each.
template <class Items, class Make>
Json arrayOf(const Items& items, const Make& make) {
  Json array = Json::array();
  for (const auto& item : items) array.push_back(make(item));
  return array;
}

/// In one line. Names of hosts, files and hardware may be no UTF-8, which JSON is: what is none is
/// replaced.
template <class Value>
std::string jsonLine(const Value& json) {
  return json.dump(-1, ' ', false, Value::error_handler_t::replace) + "\n";
}

}  // namespace tutti::tools
